package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

var checks = []check{
	{"login, ping, DDL", func(c *pgx.Conn) {
		must(c.Ping(ctx))
		var user string
		must(c.QueryRow(ctx, "select current_user").Scan(&user))
		equal(user, "app")
		exec(c, "drop table if exists "+table)
		exec(c, "create table "+table+" (id int primary key, name text)")
	}},
	{"every exec mode: parameters, many uses, errors", func(*pgx.Conn) {
		for _, mode := range modes {
			c := connect(mode)
			for i := range 100 {
				var n int
				var text string
				must(c.QueryRow(ctx, "select $1::int, $2::text", i, "ü'\\").Scan(&n, &text))
				equal(text, "ü'\\")
				equal(n, i)
			}
			_, err := c.Exec(ctx, "select 1 / $1::int", 0)
			fails(err, "22012")
			_, err = c.Exec(ctx, "select * from no_such_table where id = $1", 1)
			fails(err, "42P01")
			equal(number(c, "select $1::int", 8), 8)
			must(c.Close(ctx))
		}
	}},
	{"prepared statements, deallocated", func(c *pgx.Conn) {
		for round := range 3 {
			_, err := c.Prepare(ctx, "plus", fmt.Sprintf("select $1::int + %d", round))
			must(err)
			for i := range 50 {
				equal(number(c, "plus", i), i+round)
			}
			must(c.Deallocate(ctx, "plus"))
		}
		must(c.DeallocateAll(ctx))
		equal(number(c, "select $1::int", 1), 1)
	}},
	{"transactions, savepoints, rollback", func(c *pgx.Conn) {
		tx, err := c.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.Serializable})
		must(err)
		exec(tx.Conn(), "insert into "+table+" values ($1)", 1)
		savepoint, err := tx.Begin(ctx)
		must(err)
		exec(tx.Conn(), "insert into "+table+" values ($1)", 2)
		must(savepoint.Rollback(ctx))
		must(tx.Commit(ctx))
		tx, err = c.Begin(ctx)
		must(err)
		exec(c, "insert into "+table+" values ($1)", 3)
		must(tx.Rollback(ctx))
		equal(number(c, "select sum(id)::int from "+table), 1)
		tx, err = c.BeginTx(ctx, pgx.TxOptions{AccessMode: pgx.ReadOnly})
		must(err)
		_, err = tx.Exec(ctx, "insert into "+table+" values ($1)", 4)
		fails(err, "25006")
		must(tx.Rollback(ctx))
	}},
	{"a failed transaction refuses until rolled back", func(c *pgx.Conn) {
		tx, err := c.Begin(ctx)
		must(err)
		_, err = tx.Exec(ctx, "insert into "+table+" values ($1)", 1)
		fails(err, "23505")
		_, err = tx.Exec(ctx, "select 1")
		fails(err, "25P02")
		if err = tx.Commit(ctx); !errors.Is(err, pgx.ErrTxCommitRollback) {
			panic(fmt.Sprintf("commit of a failed transaction gave %v", err))
		}
		equal(number(c, "select 2"), 2)
	}},
	{"COPY in and out; a COPY that fails", func(c *pgx.Conn) {
		rows := make([][]any, 5000)
		for i := range rows {
			rows[i] = []any{1000 + i, fmt.Sprint("row ", i)}
		}
		copied, err := c.CopyFrom(ctx, pgx.Identifier{table}, []string{"id", "name"}, pgx.CopyFromRows(rows))
		must(err)
		equal(copied, 5000)
		var out bytes.Buffer
		_, err = c.PgConn().CopyTo(ctx, &out, "copy (select id from "+table+" where id >= 1000) to stdout")
		must(err)
		equal(strings.Count(out.String(), "\n"), 5000)
		_, err = c.CopyFrom(ctx, pgx.Identifier{table}, []string{"id", "name"}, pgx.CopyFromRows(rows[:1]))
		fails(err, "23505")
		equal(number(c, "select 3"), 3)
	}},
	{"batch in every mode that pipelines; one that fails", func(*pgx.Conn) {
		for _, mode := range modes {
			c := connect(mode)
			batch := &pgx.Batch{}
			for i := range 100 {
				batch.Queue("select $1::int", i).QueryRow(func(row pgx.Row) error {
					var n int
					err := row.Scan(&n)
					equal(n, i)
					return err
				})
			}
			must(c.SendBatch(ctx, batch).Close())
			broken := &pgx.Batch{}
			broken.Queue("insert into "+table+" values ($1)", 90000)
			broken.Queue("select 1 / $1::int", 0)
			broken.Queue("select 1")
			fails(c.SendBatch(ctx, broken).Close(), "22012")
			equal(number(c, "select count(*)::int from "+table+" where id = $1", 90000), 0)
			must(c.Close(ctx))
		}
	}},
	{"cursor, rows closed early", func(c *pgx.Conn) {
		tx, err := c.Begin(ctx)
		must(err)
		exec(c, "declare walker cursor for select generate_series(1, 250)")
		total := 0
		for range 3 {
			rows, err := tx.Query(ctx, "fetch 100 from walker")
			must(err)
			part, err := pgx.CollectRows(rows, pgx.RowTo[int])
			must(err)
			total += len(part)
		}
		equal(total, 250)
		must(tx.Commit(ctx))
		rows, err := c.Query(ctx, "select generate_series(1, 100000)")
		must(err)
		rows.Next()
		rows.Close()
		equal(number(c, "select 4"), 4)
	}},
	{"cancel within seconds, the session goes on", func(c *pgx.Conn) {
		started := time.Now()
		time.AfterFunc(300*time.Millisecond, func() { _ = c.PgConn().CancelRequest(ctx) })
		_, err := c.Exec(ctx, "select pg_sleep(30)")
		fails(err, "57014")
		if took := time.Since(started); took > 5*time.Second {
			panic(fmt.Sprint("cancel took ", took))
		}
		equal(number(c, "select 5"), 5)
	}},
	{"LISTEN and NOTIFY", func(c *pgx.Conn) {
		exec(c, "listen drv_pgx")
		exec(c, "select pg_notify('drv_pgx', 'hello')")
		limited, done := context.WithTimeout(ctx, 5*time.Second)
		defer done()
		heard, err := c.WaitForNotification(limited)
		must(err)
		equal(heard.Payload, "hello")
		exec(c, "unlisten *")
	}},
	{"read your writes, 200 times", func(c *pgx.Conn) {
		for i := 40000; i < 40200; i++ {
			exec(c, "insert into "+table+" values ($1)", i)
			equal(number(c, "select max(id) from "+table+" where id < 50000"), i)
		}
	}},
	{"30 clients at once, each sees its own answers", func(*pgx.Conn) {
		var all sync.WaitGroup
		wrong := make([]any, 30)
		for id := range 30 {
			all.Go(func() {
				defer func() { wrong[id] = recover() }()
				c := connect(pgx.QueryExecModeCacheStatement)
				name := fmt.Sprint("client ", id)
				for i := range 20 {
					equal(number(c, "select $1::int", id*100+i), id*100+i)
					exec(c, "insert into "+table+" values ($1, $2)", 100000+id*100+i, name)
					equal(number(c, "select count(*)::int from "+table+" where name = $1", name), i+1)
				}
				must(c.Close(ctx))
			})
		}
		all.Wait()
		for _, w := range wrong {
			if w != nil {
				panic(w)
			}
		}
	}},
}
