create schema drv_sqlx;
create type drv_sqlx.mood as enum ('sad', 'happy');
create table drv_sqlx.author (id bigint generated always as identity primary key, name text not null, mood drv_sqlx.mood);
