// pgx v5 against pgsluice: one line per check, exit code 1 if any failed.
//
//	PGSLUICE_URL=postgresql://app:secret@127.0.0.1:6432/app go run ./pgx
package main

import (
	"context"

	"github.com/jackc/pgx/v5"
	. "pgsluice.example/drivers/check"
)

const table = "drv_pgx"

var ctx = context.Background()

func exec(c *pgx.Conn, sql string, args ...any) {
	Got(c.Exec(ctx, sql, args...))
}

func value[T any](c *pgx.Conn, sql string, args ...any) (v T) {
	Must(c.QueryRow(ctx, sql, args...).Scan(&v))
	return v
}

func number(c *pgx.Conn, sql string, args ...any) int {
	return value[int](c, sql, args...)
}

func connect(mode pgx.QueryExecMode) *pgx.Conn {
	config := Got(pgx.ParseConfig(URL))
	config.DefaultQueryExecMode = mode
	return Got(pgx.ConnectConfig(ctx, config))
}

var modes = []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe,
	pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol}

// A check that wants a connection of its own, so that one failure does not break the rest.
func with(name string, run func(c *pgx.Conn)) One {
	return One{Name: name, Run: func() {
		c := connect(pgx.QueryExecModeCacheStatement)
		defer c.Close(ctx)
		run(c)
	}}
}

func main() {
	Run(checks, func() {
		c := connect(pgx.QueryExecModeExec)
		exec(c, "drop table if exists "+table)
		Must(c.Close(ctx))
	})
}
