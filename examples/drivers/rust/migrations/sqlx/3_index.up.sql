-- no-transaction
create unique index author_name on drv_sqlx.author (name);
