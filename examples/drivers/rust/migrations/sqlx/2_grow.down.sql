delete from drv_sqlx.author;
alter table drv_sqlx.author drop tags;
