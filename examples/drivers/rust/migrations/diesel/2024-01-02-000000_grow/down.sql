drop index drv_diesel_author_name; delete from drv_diesel_author where name like 'migrated %';
