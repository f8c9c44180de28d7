module pgsluice.example/pgx

go 1.25

require github.com/jackc/pgx/v5 v5.13.0
