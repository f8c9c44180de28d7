package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	. "pgsluice.example/drivers/check"
)

const rough = "drv_pgx_rough"

func pieces(ids ...int) (all []string) {
	for _, id := range ids {
		all = append(all, fmt.Sprint("insert into ", rough, " (id) values (", id, ")"))
	}
	return all
}

func say(p *pgconn.Pipeline, all ...string) {
	for _, text := range all {
		p.SendQueryParams(text, nil, nil, nil, nil)
	}
}

// What the statements of a pipeline came to, up to the next Sync. pgx tells of no skipped ones.
func outcome(p *pgconn.Pipeline) (seen []string) {
	for {
		got, err := p.GetResults()
		if err == nil {
			if reader, is := got.(*pgconn.ResultReader); is {
				var tag pgconn.CommandTag
				if tag, err = reader.Close(); err == nil {
					seen = append(seen, tag.String())
				}
			} else if _, is := got.(*pgconn.PipelineSync); is {
				return append(seen, "sync")
			} else {
				panic(fmt.Sprintf("%T", got))
			}
		}
		var pg *pgconn.PgError
		if errors.As(err, &pg) {
			seen = append(seen, pg.Code)
		} else {
			Must(err)
		}
	}
}

// Returns when a statement with this word in it is seen to run.
func untilRunning(word string) {
	c := connect(pgx.QueryExecModeExec)
	defer c.Close(ctx)
	for end := time.Now().Add(10 * time.Second); ; {
		if number(c, "select count(*)::int from pg_stat_activity where state = 'active' and query like $1 and pid <> pg_backend_pid()", "%"+word+"%") > 0 {
			return
		}
		if time.Now().After(end) {
			panic(word + " is never seen to run")
		}
	}
}

func ids(c *pgx.Conn, from int) []int {
	return value[[]int](c, "select array_agg(id order by id) from "+rough+" where id between $1 and $1 + 9", from)
}

func init() {
	checks = append(checks,
		with("a program dies in a pipeline: what was before a Sync stays, what has none is gone", func(c *pgx.Conn) {
			exec(c, "drop table if exists "+rough)
			exec(c, "create table "+rough+" (id int primary key, name text)")
			for round := range 12 {
				i := 10 * round
				dying := connect(pgx.QueryExecModeExec)
				p := dying.PgConn().StartPipeline(ctx)
				say(p, pieces(i, i+1)...)
				p.SendPipelineSync()
				switch round % 3 {
				case 1:
					say(p, "begin")
					p.SendPipelineSync()
				case 2:
					say(p, "select 1/0")
				}
				say(p, pieces(i+2, i+3)...)
				p.SendFlushRequest()
				Must(p.Flush())
				Equal(outcome(p), "[INSERT 0 1 INSERT 0 1 sync]")
				if tcp, is := dying.PgConn().Conn().(*net.TCPConn); is && round%2 == 1 {
					Must(tcp.SetLinger(0)) // by a reset
				}
				Must(dying.PgConn().Conn().Close())
				// Waits for the dead one's transaction, and fails if that was committed.
				Within(10*time.Second, func() { exec(c, "insert into "+rough+" values ($1, 'new'), ($2, 'new')", i+2, i+3) })
				Equal(ids(c, i), []int{i, i + 1, i + 2, i + 3})
			}
		}),
		with("cancel in a pipeline and in a batch: up to the Sync nothing stays, the rest goes on", func(c *pgx.Conn) {
			sleeper := func(i int) string {
				return fmt.Sprintf("insert into %s select %d from pg_sleep(30) /* sleeper %d */", rough, i, i)
			}
			for round := range 4 {
				i := 2000 + 10*round
				p := c.PgConn().StartPipeline(ctx)
				say(p, pieces(i)...)
				p.SendPipelineSync()
				say(p, append(pieces(i+1), append([]string{sleeper(i + 2)}, pieces(i+3)...)...)...)
				p.SendPipelineSync()
				say(p, pieces(i+4)...)
				Must(p.Sync())
				untilRunning(fmt.Sprintf("sleeper %d ", i+2))
				Within(10*time.Second, func() {
					Must(c.PgConn().CancelRequest(ctx))
					Equal(outcome(p), "[INSERT 0 1 sync]")
					Equal(outcome(p), "[INSERT 0 1 57014 sync]")
					Equal(outcome(p), "[INSERT 0 1 sync]")
				})
				Must(p.Close())
				Equal(ids(c, i), []int{i, i + 4})
				batch := &pgx.Batch{}
				for _, text := range append(pieces(i+5), sleeper(i+6), "select 1") {
					batch.Queue(text)
				}
				limited, done := context.WithTimeout(ctx, 300*time.Millisecond)
				d := connect(modes[round])
				Within(10*time.Second, func() {
					if err := d.SendBatch(limited, batch).Close(); err == nil {
						panic("the batch ended well")
					}
				})
				done()
				Must(d.Close(ctx))
				// The driver has given the connection up, the server may still be at it.
				Within(10*time.Second, func() { exec(c, "insert into "+rough+" values ($1)", i+5) })
			}
		}),
		with("cursors: WITH HOLD across transactions, several at once, of a failed transaction", func(c *pgx.Conn) {
			_, err := c.Exec(ctx, "declare walker cursor for select 1")
			Fails(err, "25P01")
			tx := Got(c.Begin(ctx))
			exec(c, "declare held cursor with hold for select generate_series(1, 100)")
			exec(c, "declare gone cursor for select 1")
			Must(tx.Commit(ctx))
			exec(c, "declare other scroll cursor with hold for select generate_series(101, 200)")
			for i := 1; i <= 50; i++ {
				Equal(number(c, "fetch 1 from held"), i)
				Equal(number(c, "fetch 1 from other"), 100+i)
				Equal(number(c, "select $1::int", i), i)
			}
			Equal(number(c, "fetch absolute 7 from other"), 107)
			_, err = c.Exec(ctx, "fetch 1 from gone")
			Fails(err, "34000")
			exec(c, "close held")
			Equal(number(c, "fetch next from other"), 108)
			exec(c, "close all")
			tx = Got(c.Begin(ctx))
			exec(c, "declare never cursor with hold for select 1")
			_, err = tx.Exec(ctx, "select 1/0")
			Fails(err, "22012")
			Must(tx.Rollback(ctx))
			_, err = c.Exec(ctx, "fetch 1 from never")
			Fails(err, "34000")
			Equal(number(c, "select count(*)::int from pg_cursors where name <> ''"), 0)
		}),
		with("savepoint loops: 200 in a row, 40 deep, in every mode, with errors and settings that go back", func(*pgx.Conn) {
			for n, mode := range modes {
				c := connect(mode)
				tx := Got(c.Begin(ctx))
				for i := range 200 {
					sub := Got(tx.Begin(ctx))
					_, err := sub.Exec(ctx, "insert into "+rough+" values ($1)", 4000+1000*n+i-i%2)
					if i%2 == 1 {
						Fails(err, "23505")
						_, err = sub.Exec(ctx, "select $1::int", i)
						Fails(err, "25P02")
						Must(sub.Rollback(ctx))
					} else {
						Must(err)
						Must(sub.Commit(ctx))
					}
				}
				Must(tx.Commit(ctx))
				Equal(number(c, "select count(*)::int from "+rough+" where id between $1 and $1 + 199", 4000+1000*n), 100)
				exec(c, "set application_name = 'outside'")
				var nest func(tx pgx.Tx, level int)
				nest = func(tx pgx.Tx, level int) {
					sub := Got(tx.Begin(ctx))
					exec(c, fmt.Sprintf("set application_name = 'level %d'", level))
					if level < 40 {
						nest(sub, level+1)
					}
					Equal(value[string](c, "show application_name"), fmt.Sprint("level ", level))
					Must(sub.Rollback(ctx))
				}
				tx = Got(c.Begin(ctx))
				nest(tx, 1)
				Must(tx.Commit(ctx))
				for range 5 {
					Equal(value[string](c, "show application_name"), "outside")
				}
				Must(c.Close(ctx))
			}
		}),
		with("statement caches that overflow: 8 clients, 300 texts each, errors and failed transactions in between", func(*pgx.Conn) {
			Together(8, func(id int) {
				for _, capacity := range []string{"1", "5", "40"} {
					for _, mode := range []string{"cache_statement", "cache_describe"} {
						c := Got(pgx.Connect(ctx, With(map[string]string{"default_query_exec_mode": mode, "statement_cache_capacity": capacity, "description_cache_capacity": capacity})))
						for i := range 100 {
							text := fmt.Sprintf("select $1::int + %d", id*1000+i%23)
							Equal(number(c, text, i), i+id*1000+i%23)
							switch i % 10 {
							case 3:
								_, err := c.Exec(ctx, fmt.Sprint("select $1::int from no_such_table_", i), 1)
								Fails(err, "42P01")
							case 5:
								tx := Got(c.Begin(ctx))
								_, err := tx.Exec(ctx, "select 1 / $1::int", 0)
								Fails(err, "22012")
								// Nothing can be closed or prepared here.
								_, err = tx.Exec(ctx, fmt.Sprintf("select $1::int - %d", i), 1)
								Fails(err, "25P02")
								Must(tx.Rollback(ctx))
							case 7:
								batch := &pgx.Batch{}
								for j := range 30 {
									batch.Queue(fmt.Sprintf("select $1::int * %d + %d", id, j), i).QueryRow(func(row pgx.Row) error {
										var n int
										err := row.Scan(&n)
										Equal(n, i*id+j)
										return err
									})
								}
								Must(c.SendBatch(ctx, batch).Close())
							}
						}
						Must(c.Close(ctx))
					}
				}
			})
		}),
		with("a listener beside a busy pool hears everything in order; who does not listen hears nothing", func(c *pgx.Conn) {
			config := Got(pgxpool.ParseConfig(With(map[string]string{"pool_max_conns": "4"})))
			config.ConnConfig.OnNotification = func(_ *pgconn.PgConn, n *pgconn.Notification) { panic("heard " + n.Payload) }
			pool := Got(pgxpool.NewWithConfig(ctx, config))
			defer pool.Close()
			exec(c, "listen drv_pgx_rough")
			done := make(chan any)
			go func() {
				defer func() { done <- recover() }()
				Together(8, func(id int) {
					for i := range 50 {
						tx := Got(pool.Begin(ctx))
						Got(tx.Exec(ctx, "select pg_notify('drv_pgx_rough', $1)", fmt.Sprintf("%d %02d", id, i)))
						if i%10 == 9 {
							Must(tx.Rollback(ctx))
							Got(pool.Exec(ctx, "select pg_notify('drv_pgx_rough', $1)", fmt.Sprintf("%d %02d", id, i)))
						} else {
							Must(tx.Commit(ctx))
						}
					}
				})
			}()
			limited, stop := context.WithTimeout(ctx, 30*time.Second)
			defer stop()
			heard := make(map[string][]string)
			for i := range 400 {
				n := Got(c.WaitForNotification(limited))
				who, what, _ := strings.Cut(n.Payload, " ")
				heard[who] = append(heard[who], what)
				if i%100 == 50 {
					Equal(number(c, "select 7"), 7)
				}
			}
			if wrong := <-done; wrong != nil {
				panic(wrong)
			}
			for _, what := range heard {
				Equal(len(what), 50)
				Equal(slices.IsSorted(what), true)
			}
			exec(c, "unlisten *")
		}),
		with("wide rows: 1,600 columns, values of 20 MB, in every mode", func(c *pgx.Conn) {
			columns, marks, wanted, values := make([]string, 1600), make([]string, 1600), make([]int32, 1600), make([]any, 1600)
			for i := range columns {
				columns[i], marks[i] = fmt.Sprintf("c%d int default %d", i, i), fmt.Sprintf("$%d::int", i+1)
				wanted[i], values[i] = int32(i), int32(i)
			}
			exec(c, "drop table if exists "+rough+"_wide")
			exec(c, "create table "+rough+"_wide ("+strings.Join(columns, ", ")+")")
			exec(c, "insert into "+rough+"_wide default values")
			large := make([]byte, 20_000_000)
			Got(rand.Read(large))
			for _, mode := range modes {
				d := connect(mode)
				for _, query := range []string{"select * from " + rough + "_wide", "select " + strings.Join(marks, ", ")} {
					args := values[:strings.Count(query, "$")]
					for range 2 {
						got := Got(pgx.CollectOneRow(Got(d.Query(ctx, query, args...)), func(row pgx.CollectableRow) ([]any, error) { return row.Values() }))
						Equal(got, wanted)
					}
				}
				if got := value[[]byte](d, "select $1::bytea", large); !slices.Equal(got, large) {
					panic("other bytes came back")
				}
				Must(d.Close(ctx))
			}
			exec(c, "drop table "+rough+"_wide")
		}),
		with("statement_timeout and lock_timeout by options: each connection has its own, over the same few servers", func(c *pgx.Conn) {
			holder := connect(pgx.QueryExecModeExec)
			tx := Got(holder.Begin(ctx))
			exec(holder, "lock table "+rough)
			Together(6, func(id int) {
				options := [][2]string{{"", "0 0"}, {"-c statement_timeout=500", "500ms 0"}, {"-c lock_timeout=50", "0 50ms"}}[id%3]
				c := Got(pgx.Connect(ctx, With(map[string]string{"options": options[0]})))
				defer c.Close(ctx)
				for i := range 4 {
					switch id % 3 {
					case 0:
						exec(c, "select pg_sleep(0.6)")
					case 1:
						_, err := c.Exec(ctx, []string{"select pg_sleep(20)", "delete from " + rough}[i%2])
						Fails(err, "57014")
					case 2:
						_, err := c.Exec(ctx, "delete from "+rough)
						Fails(err, "55P03")
					}
					Equal(value[string](c, "select current_setting('statement_timeout') || ' ' || current_setting('lock_timeout')"), options[1])
				}
				exec(c, "set statement_timeout = '33s'")
				Equal(value[string](c, "show statement_timeout"), "33s")
				exec(c, "reset statement_timeout")
				Equal(value[string](c, "show statement_timeout"), strings.Fields(options[1])[0])
			})
			Must(tx.Rollback(ctx))
			Must(holder.Close(ctx))
			exec(c, "drop table "+rough)
		}),
	)
}
