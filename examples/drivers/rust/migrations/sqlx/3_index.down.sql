drop index drv_sqlx.author_name;
