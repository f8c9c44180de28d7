package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib"
	. "pgsluice.example/drivers/check"
)

func init() {
	checks = append(checks,
		One{Name: "options of the URL: exec modes, caches, settings, names, timeouts", Run: func() {
			for _, mode := range []string{"cache_statement", "cache_describe", "describe_exec", "exec", "simple_protocol"} {
				for _, capacity := range []string{"0", "1", "512"} {
					if capacity == "0" && (mode == "cache_statement" || mode == "cache_describe") {
						continue // pgx refuses that itself
					}
					c := Got(pgx.Connect(ctx, With(map[string]string{"default_query_exec_mode": mode,
						"statement_cache_capacity": capacity, "description_cache_capacity": capacity, "application_name": "drv",
						"search_path": "pg_catalog", "statement_timeout": "7000", "connect_timeout": "5"})))
					for i := range 20 {
						Equal(number(c, fmt.Sprintf("select $1::int + %d", i%3), i), i+i%3)
						Equal(value[string](c, "select concat_ws(' ', current_setting('application_name'), current_setting('search_path'), current_setting('statement_timeout'))"), "drv pg_catalog 7s")
					}
					Must(c.Close(ctx))
				}
			}
			c := Got(pgx.Connect(ctx, With(map[string]string{"options": "-c search_path=pg_catalog -c work_mem=9MB"})))
			Equal(value[string](c, "select current_setting('search_path') || current_setting('work_mem')"), "pg_catalog9MB")
			Must(c.Close(ctx))
			_, err := pgx.Connect(ctx, With(map[string]string{"no_such_setting": "1"}))
			Fails(err, "42704")
			_, err = pgx.Connect(ctx, With(map[string]string{"password": "wrong"}))
			Fails(err, "28P01")
		}},
		One{Name: "target_session_attrs, several hosts", Run: func() {
			for attrs, fits := range map[string]bool{"any": true, "read-write": true, "primary": true, "prefer-standby": true, "read-only": false, "standby": false} {
				c, err := pgx.Connect(ctx, With(map[string]string{"target_session_attrs": attrs}))
				if (err == nil) != fits {
					panic(fmt.Sprint(attrs, ": ", err))
				}
				if err == nil {
					Equal(value[string](c, "show transaction_read_only"), "off")
					Must(c.Close(ctx))
				}
			}
			c := Got(pgx.Connect(ctx, With(map[string]string{"target_session_attrs": "read-only", "default_transaction_read_only": "on"})))
			_, err := c.Exec(ctx, "create table drv_pgx_never (id int)")
			Fails(err, "25006")
			Must(c.Close(ctx))
			u := Got(url.Parse(URL))
			u.Host = "127.0.0.1:1," + u.Host
			c = Got(pgx.Connect(ctx, u.String()))
			Equal(number(c, "select 7"), 7)
			Must(c.Close(ctx))
		}},
		with("types of one's own: enum, composite, their arrays", func(c *pgx.Conn) {
			exec(c, "drop type if exists drv_pgx_pair, drv_pgx_mood")
			exec(c, "create type drv_pgx_mood as enum ('sad', 'happy')")
			exec(c, "create type drv_pgx_pair as (a int, m drv_pgx_mood)")
			for _, mode := range modes {
				c := connect(mode)
				for _, t := range Got(c.LoadTypes(ctx, []string{"drv_pgx_mood", "drv_pgx_pair", "_drv_pgx_mood"})) {
					c.TypeMap().RegisterType(t)
				}
				Equal(value[[]string](c, "select array['sad', 'happy']::drv_pgx_mood[]"), "[sad happy]")
				var pair struct {
					A int
					M string
				}
				Must(c.QueryRow(ctx, "select row(1, 'sad')::drv_pgx_pair").Scan(&pair))
				Equal(pair, "{1 sad}")
				Must(c.Close(ctx))
			}
			exec(c, "drop type drv_pgx_pair, drv_pgx_mood")
		}),
		with("schema changes under a cached statement, in every mode", func(c *pgx.Conn) {
			for _, mode := range modes {
				d := connect(mode)
				exec(d, "drop table if exists drv_pgx_change")
				exec(d, "create table drv_pgx_change (a int)")
				exec(d, "insert into drv_pgx_change values (1)")
				read := func() (n int, err error) {
					rows, err := d.Query(ctx, "select * from drv_pgx_change")
					if err != nil {
						return 0, err
					}
					got, err := pgx.CollectRows(rows, pgx.RowToMap)
					if err != nil {
						return 0, err
					}
					return len(got[0]), nil
				}
				for range 3 {
					Equal(Got(read()), 1)
				}
				exec(c, "alter table drv_pgx_change add b text default 'x'")
				exec(d, "update drv_pgx_change set a = 2") // from now on it sees nothing older, not even on a replica
				n, err := read()
				if err != nil {
					Fails(err, "0A000") // as a server says; pgx prepares it anew for the next time
					n = Got(read())
				}
				Equal(n, 2)
				Must(d.Close(ctx))
			}
			exec(c, "drop table drv_pgx_change")
		}),
		with("a context's deadline cancels; the pool replaces the connection", func(*pgx.Conn) {
			config := Got(pgxpool.ParseConfig(With(map[string]string{"pool_max_conns": "2", "pool_min_conns": "1"})))
			pool := Got(pgxpool.NewWithConfig(ctx, config))
			defer pool.Close()
			for i := range 10 {
				Within(5*time.Second, func() {
					limited, done := context.WithTimeout(ctx, 50*time.Millisecond)
					defer done()
					_, err := pool.Exec(limited, "select pg_sleep(30)")
					if !errors.Is(err, context.DeadlineExceeded) {
						Fails(err, "57014")
					}
				})
				var n int
				Must(pool.QueryRow(ctx, "select $1::int", i).Scan(&n))
				Equal(n, i)
			}
			_, err := pool.Exec(ctx, "select pg_terminate_backend(pg_backend_pid())")
			if err == nil {
				panic("the session did not end")
			}
			for i := range 10 {
				var n int
				Must(pool.QueryRow(ctx, "select $1::int", i).Scan(&n))
				Equal(n, i)
			}
		}),
		with("pipeline mode: prepares, syncs, an error in the middle", func(c *pgx.Conn) {
			pipeline := c.PgConn().StartPipeline(ctx)
			pipeline.SendPrepare("drv_piped", "select $1::int + 1", nil)
			pipeline.SendQueryPrepared("drv_piped", [][]byte{[]byte("1")}, nil, nil)
			Must(pipeline.Sync())
			pipeline.SendQueryParams("select 1 / $1::int", [][]byte{[]byte("0")}, nil, nil, nil)
			pipeline.SendQueryPrepared("drv_piped", [][]byte{[]byte("2")}, nil, nil)
			Must(pipeline.Sync())
			pipeline.SendQueryPrepared("drv_piped", [][]byte{[]byte("3")}, nil, nil)
			pipeline.SendDeallocate("drv_piped")
			Must(pipeline.Sync())
			var seen []string
			for {
				got, err := pipeline.GetResults()
				if err != nil {
					Fails(err, "22012")
					seen = append(seen, "error")
					continue
				}
				switch got := got.(type) {
				case nil:
					Equal(seen, "[prepared 2 sync error sync 4 closed sync]")
					Must(pipeline.Close())
					Equal(number(c, "select 4"), 4)
					return
				case *pgconn.StatementDescription:
					seen = append(seen, "prepared")
				case *pgconn.ResultReader:
					rows := got.Read()
					if rows.Err != nil {
						Fails(rows.Err, "22012")
						seen = append(seen, "error")
					} else {
						seen = append(seen, string(rows.Rows[0][0]))
					}
				case *pgconn.CloseComplete:
					seen = append(seen, "closed")
				case *pgconn.PipelineSync:
					seen = append(seen, "sync")
				}
			}
		}),
		One{Name: "database/sql over pgx: prepared statements, transactions, 30 goroutines", Run: func() {
			db := Got(sql.Open("pgx", URL))
			defer db.Close()
			db.SetMaxOpenConns(10)
			statement := Got(db.Prepare("select $1::int + 1"))
			Together(30, func(id int) {
				for i := range 20 {
					var n int
					Must(statement.QueryRow(id*100 + i).Scan(&n))
					Equal(n, id*100+i+1)
					tx := Got(db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: i%2 == 0}))
					Must(tx.QueryRow("select count(*) from "+table+" where id = $1", -1).Scan(&n))
					Must(tx.Commit())
				}
			})
			Must(statement.Close())
		}},
		with("numeric, timestamps, ranges, intervals, UUIDs in text and binary", func(*pgx.Conn) {
			for _, mode := range modes {
				c := connect(mode)
				at := time.Date(2024, 2, 29, 12, 0, 0, 123000, time.UTC)
				var back time.Time
				var amount pgtype.Numeric
				var span pgtype.Range[pgtype.Int4]
				Must(c.QueryRow(ctx, "select $1::timestamptz, 12.5::numeric, int4range(1, $2::int)", at, 5).Scan(&back, &amount, &span))
				Equal(back.UTC(), at)
				Equal(span.Upper.Int32, 5)
				Must(c.Close(ctx))
			}
		}),
	)
}
