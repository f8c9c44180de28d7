create table drv_diesel_author (id serial primary key, name text not null, rank int not null default 0, tags text[] not null default '{}');
create table drv_diesel_book (id serial primary key, author_id int not null references drv_diesel_author on delete cascade, title text not null);
