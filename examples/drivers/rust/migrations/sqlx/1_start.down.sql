drop schema drv_sqlx cascade;
