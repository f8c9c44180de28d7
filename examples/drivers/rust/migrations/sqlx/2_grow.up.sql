alter table drv_sqlx.author add tags text[] not null default '{}';
insert into drv_sqlx.author (name) select 'migrated ' || i from generate_series(1, 100) i;
