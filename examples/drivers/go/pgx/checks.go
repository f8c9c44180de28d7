package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	. "pgsluice.example/drivers/check"
)

var checks = []One{
	with("login, ping, DDL", func(c *pgx.Conn) {
		Must(c.Ping(ctx))
		var user string
		Must(c.QueryRow(ctx, "select current_user").Scan(&user))
		Equal(user, "app")
		exec(c, "drop table if exists "+table)
		exec(c, "create table "+table+" (id int primary key, name text)")
	}),
	with("every exec mode: parameters, many uses, errors", func(*pgx.Conn) {
		for _, mode := range modes {
			c := connect(mode)
			for i := range 100 {
				var n int
				var text string
				Must(c.QueryRow(ctx, "select $1::int, $2::text", i, "ü'\\").Scan(&n, &text))
				Equal(text, "ü'\\")
				Equal(n, i)
			}
			_, err := c.Exec(ctx, "select 1 / $1::int", 0)
			Fails(err, "22012")
			_, err = c.Exec(ctx, "select * from no_such_table where id = $1", 1)
			Fails(err, "42P01")
			Equal(number(c, "select $1::int", 8), 8)
			Must(c.Close(ctx))
		}
	}),
	with("prepared statements, deallocated", func(c *pgx.Conn) {
		for round := range 3 {
			_, err := c.Prepare(ctx, "plus", fmt.Sprintf("select $1::int + %d", round))
			Must(err)
			for i := range 50 {
				Equal(number(c, "plus", i), i+round)
			}
			Must(c.Deallocate(ctx, "plus"))
		}
		Must(c.DeallocateAll(ctx))
		Equal(number(c, "select $1::int", 1), 1)
	}),
	with("transactions, savepoints, rollback", func(c *pgx.Conn) {
		tx, err := c.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.Serializable})
		Must(err)
		exec(tx.Conn(), "insert into "+table+" values ($1)", 1)
		savepoint, err := tx.Begin(ctx)
		Must(err)
		exec(tx.Conn(), "insert into "+table+" values ($1)", 2)
		Must(savepoint.Rollback(ctx))
		Must(tx.Commit(ctx))
		tx, err = c.Begin(ctx)
		Must(err)
		exec(c, "insert into "+table+" values ($1)", 3)
		Must(tx.Rollback(ctx))
		Equal(number(c, "select sum(id)::int from "+table), 1)
		tx, err = c.BeginTx(ctx, pgx.TxOptions{AccessMode: pgx.ReadOnly})
		Must(err)
		_, err = tx.Exec(ctx, "insert into "+table+" values ($1)", 4)
		Fails(err, "25006")
		Must(tx.Rollback(ctx))
	}),
	with("a failed transaction refuses until rolled back", func(c *pgx.Conn) {
		tx, err := c.Begin(ctx)
		Must(err)
		_, err = tx.Exec(ctx, "insert into "+table+" values ($1)", 1)
		Fails(err, "23505")
		_, err = tx.Exec(ctx, "select 1")
		Fails(err, "25P02")
		if err = tx.Commit(ctx); !errors.Is(err, pgx.ErrTxCommitRollback) {
			panic(fmt.Sprintf("commit of a failed transaction gave %v", err))
		}
		Equal(number(c, "select 2"), 2)
	}),
	with("COPY in and out; a COPY that fails", func(c *pgx.Conn) {
		rows := make([][]any, 5000)
		for i := range rows {
			rows[i] = []any{1000 + i, fmt.Sprint("row ", i)}
		}
		copied, err := c.CopyFrom(ctx, pgx.Identifier{table}, []string{"id", "name"}, pgx.CopyFromRows(rows))
		Must(err)
		Equal(copied, 5000)
		var out bytes.Buffer
		_, err = c.PgConn().CopyTo(ctx, &out, "copy (select id from "+table+" where id >= 1000) to stdout")
		Must(err)
		Equal(strings.Count(out.String(), "\n"), 5000)
		_, err = c.CopyFrom(ctx, pgx.Identifier{table}, []string{"id", "name"}, pgx.CopyFromRows(rows[:1]))
		Fails(err, "23505")
		Equal(number(c, "select 3"), 3)
	}),
	with("batch in every mode that pipelines; one that fails", func(*pgx.Conn) {
		for _, mode := range modes {
			c := connect(mode)
			batch := &pgx.Batch{}
			for i := range 100 {
				batch.Queue("select $1::int", i).QueryRow(func(row pgx.Row) error {
					var n int
					err := row.Scan(&n)
					Equal(n, i)
					return err
				})
			}
			Must(c.SendBatch(ctx, batch).Close())
			broken := &pgx.Batch{}
			broken.Queue("insert into "+table+" values ($1)", 90000)
			broken.Queue("select 1 / $1::int", 0)
			broken.Queue("select 1")
			Fails(c.SendBatch(ctx, broken).Close(), "22012")
			Equal(number(c, "select count(*)::int from "+table+" where id = $1", 90000), 0)
			Must(c.Close(ctx))
		}
	}),
	with("cursor, rows closed early", func(c *pgx.Conn) {
		tx, err := c.Begin(ctx)
		Must(err)
		exec(c, "declare walker cursor for select generate_series(1, 250)")
		total := 0
		for range 3 {
			rows, err := tx.Query(ctx, "fetch 100 from walker")
			Must(err)
			part, err := pgx.CollectRows(rows, pgx.RowTo[int])
			Must(err)
			total += len(part)
		}
		Equal(total, 250)
		Must(tx.Commit(ctx))
		rows, err := c.Query(ctx, "select generate_series(1, 100000)")
		Must(err)
		rows.Next()
		rows.Close()
		Equal(number(c, "select 4"), 4)
	}),
	with("cancel within seconds, the session goes on", func(c *pgx.Conn) {
		Within(5*time.Second, func() {
			time.AfterFunc(300*time.Millisecond, func() { _ = c.PgConn().CancelRequest(ctx) })
			_, err := c.Exec(ctx, "select pg_sleep(30)")
			Fails(err, "57014")
		})
		Equal(number(c, "select 5"), 5)
	}),
	with("LISTEN and NOTIFY", func(c *pgx.Conn) {
		exec(c, "listen drv_pgx")
		exec(c, "select pg_notify('drv_pgx', 'hello')")
		limited, done := context.WithTimeout(ctx, 5*time.Second)
		defer done()
		heard, err := c.WaitForNotification(limited)
		Must(err)
		Equal(heard.Payload, "hello")
		exec(c, "unlisten *")
	}),
	with("read your writes, 200 times", func(c *pgx.Conn) {
		exec(c, "set synchronous_commit = local") // replicas may lag
		for i := 40000; i < 40200; i++ {
			exec(c, "insert into "+table+" values ($1)", i)
			Equal(number(c, "select max(id) from "+table+" where id < 50000"), i)
		}
	}),
	with("30 clients at once, each sees its own answers", func(*pgx.Conn) {
		Together(30, func(id int) {
			c := connect(pgx.QueryExecModeCacheStatement)
			name := fmt.Sprint("client ", id)
			for i := range 20 {
				Equal(number(c, "select $1::int", id*100+i), id*100+i)
				exec(c, "insert into "+table+" values ($1, $2)", 100000+id*100+i, name)
				Equal(number(c, "select count(*)::int from "+table+" where name = $1", name), i+1)
			}
			Must(c.Close(ctx))
		})
	}),
}
