// lib/pq against pgsluice: one line per check, exit code 1 if any failed.
//
//	PGSLUICE_URL=postgresql://app:secret@127.0.0.1:6432/app go run ./libpq
package main

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"os"
	"time"

	"github.com/lib/pq"
	. "pgsluice.example/drivers/check"
)

const table = "drv_libpq"

var ctx = context.Background()

// The URL with more options. Unlike the other drivers this one wants TLS unless it is told otherwise.
func with(options map[string]string) string {
	all := map[string]string{"sslmode": cmp.Or(os.Getenv("PGSSLMODE"), "disable")}
	maps.Copy(all, options)
	return With(all)
}

func open(options map[string]string) *sql.DB {
	return Got(sql.Open("postgres", with(options)))
}

// Of a database, a connection or a transaction.
type querier interface {
	QueryRowContext(context.Context, string, ...any) *sql.Row
	ExecContext(context.Context, string, ...any) (sql.Result, error)
}

func value[T any](q querier, text string, args ...any) (v T) {
	Must(q.QueryRowContext(ctx, text, args...).Scan(&v))
	return v
}

func exec(q querier, text string, args ...any) {
	Got(q.ExecContext(ctx, text, args...))
}

func failing(q querier, text string, args ...any) error {
	_, err := q.ExecContext(ctx, text, args...)
	return err
}

func main() {
	db := open(nil)
	db.SetMaxOpenConns(30)
	check := func(name string, run func()) One { return One{Name: name, Run: run} }
	Run([]One{
		check("login, ping, DDL", func() {
			Must(db.Ping())
			Equal(value[string](db, "select current_user"), "app")
			exec(db, "drop table if exists "+table+"; create table "+table+" (id int primary key, name text, tags text[])")
		}),
		check("parameters in two round trips and in one (binary_parameters=yes)", func() {
			for _, binary := range []string{"no", "yes"} {
				db := open(map[string]string{"binary_parameters": binary})
				for i := range 100 {
					var n int
					var text string
					var raw []byte
					Must(db.QueryRow("select $1::int, $2::text, $3::bytea", i, "ü'\\", []byte{0, 255}).Scan(&n, &text, &raw))
					Equal(n, i)
					Equal(text, "ü'\\")
					Equal(raw, []byte{0, 255})
				}
				var tags []string
				Must(db.QueryRow("select $1::text[]", pq.Array([]string{"a", "b"})).Scan(pq.Array(&tags)))
				Equal(tags, "[a b]")
				Fails(failing(db, "select 1 / $1::int", 0), "22012")
				Fails(failing(db, "select * from no_such_table where id = $1", 1), "42P01")
				Must(db.Close())
			}
		}),
		check("1000 questions of 50 goroutines over few connections", func() {
			db := open(nil)
			defer db.Close()
			db.SetMaxOpenConns(20)
			Together(50, func(id int) {
				for i := range 20 {
					Equal(value[int](db, "select $1::int", id*100+i), id*100+i)
				}
			})
		}),
		check("prepared statements, used often, closed", func() {
			for _, binary := range []string{"no", "yes"} {
				db := open(map[string]string{"binary_parameters": binary})
				for round := range 3 {
					statement := Got(db.Prepare(fmt.Sprintf("select $1::int + %d", round)))
					for i := range 50 {
						var n int
						Must(statement.QueryRow(i).Scan(&n))
						Equal(n, i+round)
					}
					Must(statement.Close())
				}
				Must(db.Close())
			}
		}),
		check("transactions, isolation, read only, a failed one", func() {
			tx := Got(db.Begin())
			exec(tx, "insert into "+table+" values ($1)", 1)
			exec(tx, "savepoint s")
			Fails(failing(tx, "insert into "+table+" values ($1)", 1), "23505")
			Fails(failing(tx, "select 1"), "25P02")
			exec(tx, "rollback to s")
			Must(tx.Commit())
			tx = Got(db.Begin())
			exec(tx, "insert into "+table+" values ($1)", 2)
			Must(tx.Rollback())
			Equal(value[int](db, "select count(*) from "+table), 1)
			for _, level := range []sql.IsolationLevel{sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable} {
				tx := Got(db.BeginTx(ctx, &sql.TxOptions{Isolation: level, ReadOnly: true}))
				Equal(value[string](tx, "show transaction_read_only"), "on")
				Fails(failing(tx, "insert into "+table+" values (3)"), "25006")
				Must(tx.Rollback())
			}
			tx = Got(db.Begin())
			Fails(failing(tx, "select 1 / 0"), "22012")
			if tx.Commit() == nil {
				panic("a failed transaction was committed")
			}
		}),
		check("COPY in by CopyIn; one that fails", func() {
			load := func(from, to int) error {
				tx := Got(db.Begin())
				defer tx.Rollback()
				statement := Got(tx.Prepare(pq.CopyIn(table, "id", "name")))
				for i := from; i < to; i++ {
					if _, err := statement.Exec(i, fmt.Sprint("row ", i)); err != nil {
						return err
					}
				}
				if _, err := statement.Exec(); err != nil {
					return err
				}
				Must(statement.Close())
				return tx.Commit()
			}
			Must(load(1000, 6000))
			Fails(load(1000, 1001), "23505")
			Equal(value[int](db, "select count(*) from "+table+" where id >= 1000"), 5000)
		}),
		check("rows closed early, several result sets, notices", func() {
			rows := Got(db.Query("select generate_series(1, 100000)"))
			rows.Next()
			Must(rows.Close())
			rows = Got(db.Query("select 1; select 2, 3"))
			for rows.Next() {
			}
			Equal(rows.NextResultSet(), true)
			Must(rows.Close())
			base := Got(pq.NewConnector(with(nil)))
			heard := ""
			noticed := sql.OpenDB(pq.ConnectorWithNoticeHandler(base, func(e *pq.Error) { heard = e.Message }))
			exec(noticed, "do $$ begin raise notice 'hello'; end $$")
			Equal(heard, "hello")
			Must(noticed.Close())
		}),
		check("a context cancels within seconds, the session goes on", func() {
			Within(5*time.Second, func() {
				limited, done := context.WithTimeout(ctx, 300*time.Millisecond)
				defer done()
				_, err := db.ExecContext(limited, "select pg_sleep(30)")
				if !errors.Is(err, context.DeadlineExceeded) {
					Fails(err, "57014")
				}
			})
			Equal(value[int](db, "select 5"), 5)
		}),
		check("LISTEN and NOTIFY by a Listener, its pings", func() {
			listener := pq.NewListener(with(nil), time.Second, time.Minute, nil)
			defer listener.Close()
			Must(listener.Listen("drv_libpq"))
			Must(listener.Ping())
			exec(db, "select pg_notify('drv_libpq', $1)", "hello")
			select {
			case heard := <-listener.Notify:
				Equal(heard.Extra, "hello")
			case <-time.After(5 * time.Second):
				panic("nothing heard")
			}
			Must(listener.Unlisten("drv_libpq"))
		}),
		check("options: names, settings, options=-c, timeouts, target_session_attrs, wrong ones", func() {
			for _, options := range []map[string]string{
				{"application_name": "drv", "search_path": "pg_catalog", "statement_timeout": "7000"},
				{"fallback_application_name": "drv", "options": "-c search_path=pg_catalog -c statement_timeout=7s", "connect_timeout": "5"},
			} {
				db := open(options)
				for range 3 {
					Equal(value[string](db, "select concat_ws(' ', current_setting('application_name'), current_setting('search_path'), current_setting('statement_timeout'))"), "drv pg_catalog 7s")
				}
				Must(db.Close())
			}
			for attrs, fits := range map[string]bool{"any": true, "read-write": true, "primary": true, "prefer-standby": true, "read-only": false, "standby": false} {
				db := open(map[string]string{"target_session_attrs": attrs})
				if err := db.Ping(); (err == nil) != fits {
					panic(fmt.Sprint(attrs, ": ", err))
				}
				Must(db.Close())
			}
			Fails(open(map[string]string{"no_such_setting": "1"}).Ping(), "42704")
			Fails(open(map[string]string{"password": "wrong"}).Ping(), "28P01")
		}),
		check("statement_timeout, a lost session: the pool goes on", func() {
			db := open(map[string]string{"statement_timeout": "200"})
			Within(5*time.Second, func() { Fails(failing(db, "select pg_sleep(30)"), "57014") })
			if failing(db, "select pg_terminate_backend(pg_backend_pid())") == nil {
				panic("the session did not end")
			}
			for i := range 10 {
				Equal(value[int](db, "select $1::int", i), i)
			}
			Must(db.Close())
		}),
		check("temporary tables and settings stay with their session", func() {
			one, other := Got(db.Conn(ctx)), Got(db.Conn(ctx))
			exec(one, "create temporary table drv_temp (v int); insert into drv_temp values (1); set work_mem = '11MB'")
			Fails(failing(other, "select * from drv_temp"), "42P01")
			Equal(value[string](other, "show work_mem"), "4MB")
			Equal(value[int](one, "select v from drv_temp"), 1)
			Equal(value[string](one, "show work_mem"), "11MB")
			exec(one, "discard all")
			Fails(failing(one, "select * from drv_temp"), "42P01")
			Must(one.Close())
			Must(other.Close())
		}),
		check("read your writes, 200 times", func() {
			for i := 40000; i < 40200; i++ {
				c := Got(db.Conn(ctx))
				exec(c, "set synchronous_commit = local") // replicas may lag
				exec(c, "insert into "+table+" values ($1)", i)
				Equal(value[int](c, "select max(id) from "+table+" where id < 50000"), i)
				Must(c.Close())
			}
		}),
		check("30 clients at once, each sees its own answers", func() {
			Together(30, func(id int) {
				c := Got(db.Conn(ctx))
				name := fmt.Sprint("client ", id)
				for i := range 20 {
					Equal(value[int](c, "select $1::int", id*100+i), id*100+i)
					exec(c, "insert into "+table+" values ($1, $2)", 100000+id*100+i, name)
					Equal(value[int](c, "select count(*) from "+table+" where name = $1", name), i+1)
				}
				Must(c.Close())
			})
		}),
	}, func() { exec(db, "drop table if exists "+table) })
}
