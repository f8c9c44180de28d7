// node-postgres against pgsluice: one line per check, exit code 1 if any failed.
//   PGSLUICE_URL=postgresql://app:secret@127.0.0.1:6432/app node examples/drivers/node/node_postgres.js
'use strict';

const assert = require('node:assert/strict');
const { once } = require('node:events');
const { Readable } = require('node:stream');
const { pipeline } = require('node:stream/promises');
const { Client, Pool } = require('pg');
const Cursor = require('pg-cursor');
const { from: copyFrom, to: copyTo } = require('pg-copy-streams');

const { connectionString, run } = require('./harness');

const table = 'drv_node';

const value = async (c, text, values) => Object.values((await c.query(text, values)).rows[0])[0];
const fails = (promise, code) => assert.rejects(promise, { code });

async function connected(work, options) {
  const c = new Client({ connectionString, ...options });
  c.on('error', () => {}); // a lost connection shows in the query that needed it
  await c.connect();
  try {
    return await work(c);
  } finally {
    await c.end();
  }
}

const checks = {
  'login, DDL': async (c) => {
    assert.equal(await value(c, 'select current_user'), 'app');
    await c.query(`drop table if exists ${table}; create table ${table} (id int primary key, name text)`);
  },

  'parameters of many types': async (c) => {
    const sql = 'select $1::int as a, $2::text as b, $3::bytea as c, $4::float8 as d, $5::int[] as e, $6::bool as f, $7::jsonb as g';
    const sent = [7, "ü'\\", Buffer.from([0, 255]), 1.5, [1, 2], null, { k: [1] }];
    for (const binary of [false, true]) {
      const { rows } = await c.query({ text: sql, values: sent, binary });
      if (!binary) assert.deepEqual(Object.values(rows[0]), sent);
      else assert.equal(rows[0].a, 7);
    }
  },

  'named prepared statements, used often': async (c) => {
    for (let i = 0; i < 200; i++) {
      const { rows } = await c.query({ name: `plus_${i % 5}`, text: `select $1::int + ${i % 5} as n`, values: [i] });
      assert.equal(rows[0].n, i + (i % 5));
    }
  },

  'the same name in two sessions, other texts': async (c) => {
    await connected(async (d) => {
      for (let i = 0; i < 20; i++) {
        const [a, b] = await Promise.all([
          c.query({ name: 'same', text: 'select $1::int as n', values: [i] }),
          d.query({ name: 'same', text: 'select -$1::int as n', values: [i] }),
        ]);
        assert.deepEqual([a.rows[0].n, b.rows[0].n], [i, -i + 0]);
      }
    });
  },

  'transactions, savepoints, rollback': async (c) => {
    await c.query('begin');
    await c.query(`insert into ${table} values (1)`);
    await c.query('savepoint s');
    await c.query(`insert into ${table} values ($1)`, [2]);
    await c.query('rollback to savepoint s');
    assert.equal(await value(c, `select count(*)::int from ${table}`), 1);
    await c.query('commit');
    await c.query('begin');
    await c.query(`insert into ${table} values ($1)`, [3]);
    await c.query('rollback');
    assert.deepEqual((await c.query(`select id from ${table}`)).rows, [{ id: 1 }]);
  },

  'errors carry their SQLSTATE, the session goes on': async (c) => {
    await fails(c.query('select 1 / $1::int', [0]), '22012');
    await fails(c.query('select * from no_such_table'), '42P01');
    await fails(c.query({ name: 'broken', text: 'select * from no_such_table' }), '42P01');
    await fails(c.query({ name: 'broken', text: 'select * from no_such_table' }), '42P01');
    await fails(c.query(`insert into ${table} values ($1)`, [1]), '23505');
    await fails(c.query('selec'), '42601');
    assert.equal(await value(c, 'select 1'), 1);
  },

  'a failed transaction refuses until rolled back': async (c) => {
    await c.query('begin');
    await fails(c.query('select 1 / 0'), '22012');
    await fails(c.query('select $1::int', [1]), '25P02');
    assert.equal((await c.query('commit')).command, 'ROLLBACK');
    assert.equal(await value(c, 'select 2'), 2);
  },

  'empty query': async (c) => {
    assert.deepEqual((await c.query('')).rows, []);
    assert.deepEqual((await c.query({ text: '-- nothing', values: [] })).rows, []);
  },

  'COPY in and out; a COPY that fails': async (c) => {
    const lines = Array.from({ length: 5000 }, (_, i) => `${i + 1000}\trow ${i}\n`);
    await pipeline(Readable.from(lines), c.query(copyFrom(`copy ${table} from stdin`)));
    let out = '';
    const stream = c.query(copyTo(`copy (select * from ${table} where id >= 1000 order by id) to stdout`));
    stream.on('data', (chunk) => (out += chunk));
    await once(stream, 'end');
    assert.equal(out, lines.join(''));
    await fails(pipeline(Readable.from(['x\n']), c.query(copyFrom(`copy ${table} (id) from stdin`))), '22P02');
    assert.equal(await value(c, 'select 3'), 3);
  },

  'queries sent without waiting for answers': async (c) => {
    const answers = await Promise.all(Array.from({ length: 100 }, (_, i) => value(c, 'select $1::int', [i])));
    assert.deepEqual(answers, [...Array(100).keys()]);
  },

  'cursor: a portal read in parts': async (c) => {
    const cursor = c.query(new Cursor('select generate_series(1, $1::int) as n', [1000]));
    let total = 0;
    for (let rows; (rows = await cursor.read(150)).length > 0; ) for (const row of rows) total += row.n;
    await cursor.close();
    assert.equal(total, 500500);
    const left = c.query(new Cursor('select generate_series(1, 1000) as n'));
    assert.equal((await left.read(10)).length, 10);
    await left.close(); // before its end
    assert.equal(await value(c, 'select 4'), 4);
  },

  'cancel within seconds, the session goes on': async (c) => {
    const started = Date.now();
    const sleeping = fails(c.query('select pg_sleep(30)'), '57014');
    const { host, port, processID, secretKey } = c;
    const canceller = new Client({ host, port }).connection;
    setTimeout(() => {
      canceller.on('connect', () => canceller.cancel(processID, secretKey));
      canceller.connect(port, host);
    }, 300);
    await sleeping;
    assert(Date.now() - started < 5000);
    assert.equal(await value(c, 'select 5'), 5);
  },

  'LISTEN and NOTIFY': async (c) => {
    await c.query('listen drv_node');
    const heard = once(c, 'notification');
    await c.query("select pg_notify('drv_node', $1)", ['hello']);
    assert.equal((await heard)[0].payload, 'hello');
    await c.query('unlisten *');
  },

  'connect options: names, options, timeouts, keepAlive': async () => {
    const show = (name) => `select current_setting('${name}')`;
    for (const [options, question, answer] of [
      [{ application_name: 'drv' }, show('application_name'), 'drv'],
      [{ fallback_application_name: 'fallen' }, show('application_name'), 'fallen'],
      [{ options: '-c search_path=pg_catalog,public -c work_mem=9MB' }, `${show('search_path')} || ${show('work_mem').slice(7)}`, 'pg_catalog,public9MB'],
      [{ statement_timeout: 7000, lock_timeout: 3000, idle_in_transaction_session_timeout: 9000 }, `${show('statement_timeout')} || ${show('lock_timeout').slice(7)}`, '7s3s'],
      [{ client_encoding: 'UTF8', keepAlive: true, connectionTimeoutMillis: 5000 }, show('client_encoding'), 'UTF8'],
    ]) {
      await connected(async (c) => {
        for (let i = 0; i < 3; i++) assert.equal(await value(c, question), answer);
      }, options);
    }
    await connected(async (c) => {
      const began = Date.now();
      await fails(c.query('select pg_sleep(30)'), '57014');
      assert(Date.now() - began < 5000);
      assert.equal(await value(c, 'select 6'), 6);
    }, { statement_timeout: 200 });
    await assert.rejects(connected(() => {}, { options: '-c no_such_setting=1' }), { code: '42704' });
    await assert.rejects(connected(() => {}, { connectionString: undefined, ...new Client({ connectionString }).connectionParameters, password: 'wrong' }), { code: '28P01' });
  },

  'a client timeout gives up, the connection is thrown away': async () => {
    await connected(async (c) => {
      await assert.rejects(c.query('select pg_sleep(1)'), /timeout/);
    }, { query_timeout: 200 });
    assert.equal(await connected((c) => value(c, 'select 7')), 7);
  },

  'a lost session: the pool makes a new one': async () => {
    const pool = new Pool({ connectionString, max: 1 });
    pool.on('error', () => {});
    await assert.rejects(pool.query('select pg_terminate_backend(pg_backend_pid())'));
    for (let i = 0; i < 10; i++) assert.equal((await pool.query('select $1::int as n', [i])).rows[0].n, i);
    await pool.end();
  },

  'schema changes: a named statement after ALTER TABLE': async (c) => {
    await c.query('drop table if exists drv_node_change; create table drv_node_change (a int); insert into drv_node_change values (1)');
    const named = { name: 'change', text: 'select * from drv_node_change' };
    assert.deepEqual((await c.query(named)).rows, [{ a: 1 }]);
    await c.query("alter table drv_node_change add b text default 'x'");
    await fails(c.query(named), '0A000');
    assert.deepEqual((await c.query({ ...named, name: 'changed' })).rows, [{ a: 1, b: 'x' }]);
    await c.query('drop table drv_node_change');
  },

  'read-only transactions, isolation levels, several statements in one message': async (c) => {
    for (const level of ['read committed', 'repeatable read', 'serializable']) {
      await c.query(`begin isolation level ${level} read only`);
      assert.equal(await value(c, 'show transaction_isolation'), level);
      await fails(c.query(`insert into ${table} values (5)`), '25006');
      await c.query('rollback');
    }
    const results = await c.query(`begin; insert into ${table} values (6); select count(*)::int as n from ${table} where id = 6; rollback`);
    assert.deepEqual(results.map((r) => r.command), ['BEGIN', 'INSERT', 'SELECT', 'ROLLBACK']);
    assert.deepEqual(results[2].rows, [{ n: 1 }]);
  },

  'temporary tables, advisory locks, session settings stay with their session': async (c) => {
    await c.query("create temporary table drv_temp (v int); insert into drv_temp values (1); select pg_advisory_lock(77); set work_mem = '11MB'");
    await connected(async (d) => {
      await fails(d.query('select * from drv_temp'), '42P01');
      assert.equal(await value(d, 'select pg_try_advisory_lock(77)'), false);
      assert.notEqual(await value(d, 'show work_mem'), '11MB');
    });
    assert.equal(await value(c, 'select v from drv_temp'), 1);
    assert.equal(await value(c, 'select pg_advisory_unlock(77)'), true);
    await c.query('discard all');
    await fails(c.query('select * from drv_temp'), '42P01');
  },

  'read your writes, 200 times': async (c) => {
    await c.query('set synchronous_commit = local'); // replicas may lag
    for (let i = 40000; i < 40200; i++) {
      await c.query(`insert into ${table} values ($1)`, [i]);
      assert.equal(await value(c, `select max(id) from ${table}`), i);
    }
  },

  '30 clients at once, each sees its own answers': async () => {
    const pool = new Pool({ connectionString, max: 30 });
    const client = async (number) => {
      const c = await pool.connect();
      for (let i = 0; i < 20; i++) {
        const { rows } = await c.query('select $1::int as a, $2::int as b', [number, i]);
        assert.deepEqual(rows, [{ a: number, b: i }]);
        await c.query('begin');
        await c.query(`insert into ${table} values ($1, $2)`, [100000 + number * 100 + i, `client ${number}`]);
        await c.query('commit');
        assert.equal(await value(c, `select count(*)::int from ${table} where name = $1`, [`client ${number}`]), i + 1);
      }
      c.release();
    };
    await Promise.all(Array.from({ length: 30 }, (_, number) => client(number)));
    await pool.end();
  },
};

run(checks, connected).then(() => connected((c) => c.query(`drop table if exists ${table}`)));
