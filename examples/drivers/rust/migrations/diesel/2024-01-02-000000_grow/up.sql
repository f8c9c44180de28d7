create unique index drv_diesel_author_name on drv_diesel_author (name);
insert into drv_diesel_author (name, rank) select 'migrated ' || i, i from generate_series(1, 100) i;
