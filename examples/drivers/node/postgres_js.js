// postgres.js against pgsluice: one line per check, exit code 1 if any failed.
//   PGSLUICE_URL=postgresql://app:secret@127.0.0.1:6432/app node examples/drivers/node/postgres_js.js
'use strict';

const assert = require('node:assert/strict');
const { Readable } = require('node:stream');
const { pipeline } = require('node:stream/promises');
const postgres = require('postgres');
const { connectionString, run, ssl } = require('./harness');

const quiet = { onnotice: () => {} };
const fails = (promise, code) => assert.rejects(promise, { code });

async function connected(work, options) {
  const sql = postgres(connectionString, { ssl, max: 1, ...quiet, ...options });
  try {
    return await work(sql);
  } finally {
    await sql.end({ timeout: 5 });
  }
}

const checks = {
  'login, DDL, types fetched at login': async (sql) => {
    assert.equal((await sql`select current_user`)[0].current_user, 'app');
    await sql`drop table if exists drv_postgresjs`;
    await sql`create table drv_postgresjs (id int primary key, name text, tags text[], data jsonb)`;
  },

  'parameters of many types, arrays by fetched types, fragments, dynamic columns': async (sql) => {
    const [row] = await sql`select ${7}::int as a, ${"ü'\\"} as b, ${Buffer.from([0, 255])}::bytea as c, ${1.5}::float8 as d, ${[1, 2]}::int[] as e, ${null}::bool as f, ${sql.json({ k: [1] })} as g, ${new Date(0)}::timestamptz as h`;
    assert.deepEqual({ ...row, c: [...row.c] }, { a: 7, b: "ü'\\", c: [0, 255], d: 1.5, e: [1, 2], f: null, g: { k: [1] }, h: new Date(0) });
    const many = Array.from({ length: 500 }, (_, i) => ({ id: 1000 + i, name: `row ${i}`, tags: ['a', 'b'], data: { i } }));
    assert.equal((await sql`insert into drv_postgresjs ${sql(many)} returning id`).length, 500);
    const filter = (name) => (name ? sql`where name = ${name}` : sql``);
    assert.equal((await sql`select * from drv_postgresjs ${filter('row 7')}`)[0].data.i, 7);
    assert.equal((await sql`select ${sql(['id', 'name'])} from drv_postgresjs where id in ${sql([1000, 1001, 1002])}`).length, 3);
    await sql`update drv_postgresjs set ${sql({ name: 'changed', tags: [] }, 'name', 'tags')} where id = 1000`;
  },

  'prepared or not, described, simple, raw values, transforms': async () => {
    for (const options of [{}, { prepare: false }, { fetch_types: false }, { prepare: false, fetch_types: false }, { max_pipeline: 1 }, { transform: postgres.camel }]) {
      await connected(async (sql) => {
        for (let i = 0; i < 50; i++) assert.equal((await sql`select ${i}::int + 1 as n`)[0].n, i + 1);
        const described = await sql`select id, name from drv_postgresjs where id = ${1}`.describe();
        assert.deepEqual([described.columns.map((c) => c.name), described.types], [['id', 'name'], [23]]);
        assert.equal((await sql`select 1 as a; select 2 as b`.simple()).length, 2);
        assert.equal((await sql.unsafe('select $1::int as n', [3], { prepare: true }))[0].n, 3);
        assert.deepEqual([...(await sql`select 1 as a, 2 as b`.values())], [[1, 2]]);
      }, options);
    }
  },

  'pipelining: 200 statements at once on one connection, some fail': async (sql) => {
    const answers = await Promise.allSettled(Array.from({ length: 200 }, (_, i) => (i % 10 === 3 ? sql`select 1 / ${0}::int` : sql`select ${i}::int as n`)));
    answers.forEach((a, i) => (i % 10 === 3 ? assert.equal(a.reason.code, '22012') : assert.equal(a.value[0].n, i)));
  },

  'transactions: begin, savepoints, rollback, pipelined inside, reserved connection': async (sql) => {
    const got = await sql.begin(async (tx) => {
      await tx`insert into drv_postgresjs (id) values (1)`;
      await fails(tx.savepoint(async (sp) => {
        await sp`insert into drv_postgresjs (id) values (2)`;
        await sp`insert into drv_postgresjs (id) values (1)`;
      }), '23505');
      return Promise.all([tx`select count(*)::int as n from drv_postgresjs where id < 10`, tx`insert into drv_postgresjs (id) values (3)`]);
    });
    assert.equal(got[0][0].n, 1);
    await fails(sql.begin((tx) => [tx`insert into drv_postgresjs (id) values (4)`, tx`select 1 / 0`, tx`select 1`]), '22012');
    await fails(sql.begin('read only', (tx) => tx`insert into drv_postgresjs (id) values (5)`), '25006');
    assert.equal((await sql.begin('isolation level repeatable read read only', (tx) => tx`show transaction_isolation`))[0].transaction_isolation, 'repeatable read');
    assert.deepEqual((await sql`select id from drv_postgresjs where id < 10 order by id`).map((r) => r.id), [1, 3]);
    const kept = await sql.reserve();
    await kept`begin`;
    await kept`insert into drv_postgresjs (id) values (6)`;
    await kept`rollback`;
    kept.release();
    await sql.begin(async (tx) => {
      await tx`insert into drv_postgresjs (id) values (7)`;
      await tx.prepare('drv_postgresjs');
    });
    await sql`rollback prepared 'drv_postgresjs'`;
  },

  'cursors and forEach, left before the end': async (sql) => {
    let total = 0;
    await sql`select generate_series(1, 1000) as n`.cursor(150, (rows) => rows.forEach((r) => (total += r.n)));
    for await (const rows of sql`select generate_series(1, ${1000}::int) as n`.cursor(99)) total += rows.length;
    assert.equal(total, 501500);
    for await (const [row] of sql`select generate_series(1, 1000) as n`.cursor()) if (row.n === 10) break;
    await sql`select generate_series(1, 1000) as n`.cursor(10, () => sql.CLOSE);
    let seen = 0;
    await sql`select generate_series(1, 1000) as n`.forEach(() => seen++);
    assert.equal(seen, 1000);
    assert.equal((await sql`select 4 as n`)[0].n, 4);
  },

  '20 cursors at once over few connections': async () => {
    await connected(async (sql) => {
      const sums = await Promise.all(Array.from({ length: 20 }, async () => {
        let sum = 0;
        await sql`select generate_series(1, 100) as n`.cursor(10, (rows) => rows.forEach((r) => (sum += r.n)));
        return sum;
      }));
      assert.deepEqual(new Set(sums), new Set([5050]));
    }, { max: 8 });
  },

  'COPY in and out by streams': async (sql) => {
    const lines = Array.from({ length: 5000 }, (_, i) => `${i + 10000}\trow ${i}\n`);
    await pipeline(Readable.from(lines), await sql`copy drv_postgresjs (id, name) from stdin`.writable());
    let out = '';
    for await (const chunk of await sql`copy (select id, name from drv_postgresjs where id >= 14900 order by id) to stdout`.readable()) out += chunk;
    assert.equal(out, lines.slice(4900).join('')); // postgres.js itself hangs in long ones
    assert.equal((await sql`select 3 as n`)[0].n, 3);
  },

  'errors carry their SQLSTATE, the session goes on': async (sql) => {
    for (let i = 0; i < 3; i++) {
      await fails(sql`select 1 / ${0}::int`, '22012');
      await fails(sql`select * from no_such_table`, '42P01');
      await fails(sql`insert into drv_postgresjs (id) values (${1})`, '23505');
      await fails(sql`selec`, '42601');
      assert.equal((await sql`select 1 as n`)[0].n, 1);
    }
  },

  'schema changes: cached statements are prepared again': async (sql) => {
    await sql`drop table if exists drv_postgresjs_change`;
    await sql`create table drv_postgresjs_change (a int)`;
    await sql`insert into drv_postgresjs_change values (1)`;
    const read = () => sql`select * from drv_postgresjs_change`;
    assert.deepEqual([...(await read())], [{ a: 1 }]);
    await sql`alter table drv_postgresjs_change add b text default 'x'`;
    assert.deepEqual([...(await read())], [{ a: 1, b: 'x' }]); // 0A000 is retried by postgres.js itself
    await sql`drop table drv_postgresjs_change`;
  },

  'LISTEN and NOTIFY over its own connection, unlisten': async (sql) => {
    let hear;
    const heard = new Promise((resolve) => (hear = resolve));
    const { unlisten } = await sql.listen('drv_postgresjs', hear);
    await sql.notify('drv_postgresjs', 'hello');
    assert.equal(await heard, 'hello');
    await unlisten();
  },

  'cancel within seconds, the session goes on': async (sql) => {
    const started = Date.now();
    const sleeping = sql`select pg_sleep(30)`;
    setTimeout(() => sleeping.cancel(), 300);
    await fails(sleeping, '57014');
    assert(Date.now() - started < 5000);
    assert.equal((await sql`select 5 as n`)[0].n, 5);
  },

  'connect options: connection parameters, target_session_attrs, several hosts, timeouts': async () => {
    const show = (sql, name) => sql`select current_setting(${name}) as v`.then(([{ v }]) => v);
    await connected(async (sql) => {
      for (let i = 0; i < 3; i++) {
        assert.deepEqual([await show(sql, 'application_name'), await show(sql, 'search_path'), await show(sql, 'statement_timeout')], ['drv', 'pg_catalog', '7s']);
      }
    }, { connection: { application_name: 'drv', search_path: 'pg_catalog', statement_timeout: 7000 }, connect_timeout: 5, keep_alive: 30, idle_timeout: 20, max_lifetime: 60 });
    for (const target_session_attrs of ['read-write', 'primary']) {
      await connected(async (sql) => assert.equal(await show(sql, 'transaction_read_only'), 'off'), { target_session_attrs });
    }
    const { hostname, port } = new URL(connectionString);
    await connected(async (sql) => assert.equal(await show(sql, 'is_superuser'), 'off'), { host: [hostname, hostname], port: [1, Number(port)] });
    await fails(connected((sql) => sql`select 1`, { connection: { no_such_setting: 1 } }), '42704');
    await fails(connected((sql) => sql`select 1`, { password: 'wrong' }), '28P01');
  },

  'a lost session: it connects again': async (sql) => {
    await sql`select pg_terminate_backend(pg_backend_pid())`.catch(() => {});
    let tries = 0; // the end may show in the query after
    while (!(await sql`select 1 as n`.then(([row]) => row?.n === 1, () => false))) assert(++tries < 5);
    for (let i = 0; i < 10; i++) assert.equal((await sql`select ${i}::int as n`)[0].n, i);
  },

  'read your writes, 200 times': async (sql) => {
    await sql`set synchronous_commit = local`; // replicas may lag
    for (let i = 40000; i < 40200; i++) {
      await sql`insert into drv_postgresjs (id) values (${i})`;
      assert.equal((await sql`select max(id) as n from drv_postgresjs where id < 50000`)[0].n, i);
    }
  },

  '30 clients at once, each sees its own answers': async () => {
    const client = (number) => connected(async (sql) => {
      for (let i = 0; i < 20; i++) {
        const [[row]] = await Promise.all([sql`select ${number}::int as a, ${i}::int as b`, sql`insert into drv_postgresjs (id, name) values (${100000 + number * 100 + i}, ${`client ${number}`})`]);
        assert.deepEqual({ ...row }, { a: number, b: i });
        assert.equal((await sql`select count(*)::int as n from drv_postgresjs where name = ${`client ${number}`}`)[0].n, i + 1);
      }
    });
    await Promise.all(Array.from({ length: 30 }, (_, number) => client(number)));
  },
};

run(checks, connected).then(() => connected((sql) => sql`drop table if exists drv_postgresjs`));
