drop table drv_diesel_book, drv_diesel_author;
