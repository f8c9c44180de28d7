// pgx v5 against pgsluice: one line per check, exit code 1 if any failed.
//
//	PGSLUICE_URL=postgresql://app:secret@127.0.0.1:6432/app go run .
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const table = "drv_pgx"

var ctx = context.Background()
var url = os.Getenv("PGSLUICE_URL")

// A check panics with what went wrong; run turns that into its line.
type check struct {
	name string
	run  func(c *pgx.Conn)
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func exec(c *pgx.Conn, sql string, args ...any) {
	_, err := c.Exec(ctx, sql, args...)
	must(err)
}

func equal(got, want any) {
	if fmt.Sprint(got) != fmt.Sprint(want) {
		panic(fmt.Sprintf("expected %v, got %v", want, got))
	}
}

func number(c *pgx.Conn, sql string, args ...any) (n int) {
	must(c.QueryRow(ctx, sql, args...).Scan(&n))
	return n
}

func fails(err error, sqlstate string) {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || pg.Code != sqlstate {
		panic(fmt.Sprintf("expected SQLSTATE %s, got %v", sqlstate, err))
	}
}

func connect(mode pgx.QueryExecMode) *pgx.Conn {
	config, err := pgx.ParseConfig(url)
	must(err)
	config.DefaultQueryExecMode = mode
	c, err := pgx.ConnectConfig(ctx, config)
	must(err)
	return c
}

var modes = []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe,
	pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol}

// Each check has a connection of its own, so that one failure does not break the rest.
func (k check) passes() (ok bool) {
	defer func() {
		if wrong := recover(); wrong != nil {
			fmt.Printf("FAIL %s: %s\n", k.name, strings.ReplaceAll(fmt.Sprint(wrong), "\n", " | "))
		}
	}()
	c := connect(pgx.QueryExecModeCacheStatement)
	defer c.Close(ctx)
	k.run(c)
	fmt.Println("ok   " + k.name)
	return true
}

func main() {
	code := 0
	for _, k := range checks {
		if !k.passes() {
			code = 1
		}
	}
	if c, err := pgx.Connect(ctx, url); err == nil {
		_, _ = c.Exec(ctx, "drop table if exists "+table)
	}
	os.Exit(code)
}
