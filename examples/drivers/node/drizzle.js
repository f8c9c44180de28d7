// Drizzle over node-postgres and over postgres.js against pgsluice: one line per check, exit code 1 if any failed.
//   PGSLUICE_URL=postgresql://app:secret@127.0.0.1:6432/app node examples/drivers/node/drizzle.js
'use strict';

const assert = require('node:assert/strict');
const path = require('node:path');
const { and, count, eq, gt, inArray, relations, sql, sum } = require('drizzle-orm');
const { integer, jsonb, pgSchema, serial, text, timestamp } = require('drizzle-orm/pg-core');
const { Pool } = require('pg');
const postgres = require('postgres');
const { connectionString, run, ssl } = require('./harness');

const space = pgSchema('drv_drizzle');
const kind = space.enum('kind', ['novel', 'poems']);
const author = space.table('author', {
  id: integer('id').primaryKey().generatedAlwaysAsIdentity(),
  name: text('name').notNull().unique(),
  tags: text('tags').array().notNull().default([]),
});
const book = space.table('book', {
  id: serial('id').primaryKey(),
  authorId: integer('author_id').notNull().references(() => author.id, { onDelete: 'cascade' }),
  title: text('title').notNull(),
  kind: kind('kind').notNull().default('novel'),
  data: jsonb('data'),
  added: timestamp('added', { withTimezone: true }).notNull().defaultNow(),
});
const schema = {
  author,
  book,
  authorRelations: relations(author, ({ many }) => ({ books: many(book) })),
  bookRelations: relations(book, ({ one }) => ({ author: one(author, { fields: [book.authorId], references: [author.id] }) })),
};

const failsWith = (code) => (error) => (error.cause?.code ?? error.code) === code;

const checks = {
  'migrate, and again with nothing to do': async (db, migrate) => {
    await db.execute(sql`drop schema if exists drv_drizzle cascade`);
    const options = { migrationsFolder: path.join(__dirname, 'drizzle'), migrationsSchema: 'drv_drizzle_log' };
    await db.execute(sql`drop schema if exists drv_drizzle_log cascade`);
    await migrate(db, options);
    await migrate(db, options);
    assert.equal(await db.$count(sql`drv_drizzle_log.__drizzle_migrations`), 2);
  },

  'insert, returning, upsert, update, delete, aggregates, joins': async (db) => {
    const [ada] = await db.insert(author).values({ name: 'Ada', tags: ['a', "ü'\\"] }).returning();
    assert.deepEqual(ada.tags, ['a', "ü'\\"]);
    await db.insert(book).values(Array.from({ length: 500 }, (_, i) => ({ authorId: ada.id, title: `book ${i}`, kind: i % 2 ? 'novel' : 'poems', data: { i } })));
    await db.insert(author).values({ name: 'Ada' }).onConflictDoUpdate({ target: author.name, set: { tags: ['up'] } });
    assert.deepEqual((await db.select().from(author).where(eq(author.name, 'Ada')))[0].tags, ['up']);
    assert.equal((await db.update(book).set({ title: sql`upper(${book.title})` }).where(inArray(book.title, ['book 1', 'book 2'])).returning()).length, 2);
    const groups = await db.select({ kind: book.kind, n: count(), ids: sum(book.id) }).from(book).innerJoin(author, eq(author.id, book.authorId)).where(and(eq(author.name, 'Ada'), gt(book.id, 0))).groupBy(book.kind).orderBy(book.kind);
    assert.deepEqual(groups.map((g) => [g.kind, g.n]), [['novel', 250], ['poems', 250]]);
    assert.equal((await db.delete(book).where(eq(book.kind, 'poems')).returning({ id: book.id })).length, 250);
  },

  'relational queries, prepared statements with placeholders, subqueries': async (db) => {
    for (let i = 0; i < 10; i++) {
      const found = await db.query.author.findFirst({ where: eq(author.name, 'Ada'), with: { books: { limit: 3, orderBy: book.id } } });
      assert.equal(found.books.length, 3);
    }
    const byTitle = db.select().from(book).where(eq(book.title, sql.placeholder('title'))).prepare('drv_by_title');
    for (let i = 0; i < 50; i++) assert.equal((await byTitle.execute({ title: `book ${2 * i + 3}` }))[0].data.i, 2 * i + 3);
    const newest = db.$with('newest').as(db.select({ id: book.id }).from(book).limit(5));
    assert.equal((await db.with(newest).select().from(newest)).length, 5);
  },

  'transactions, nested, rolled back, isolation, read only': async (db) => {
    await db.transaction(async (tx) => {
      await tx.insert(author).values({ name: 'outer' });
      await assert.rejects(tx.transaction(async (inner) => inner.insert(author).values({ name: 'Ada' })), failsWith('23505'));
      assert.equal((await tx.select().from(author).where(eq(author.name, 'outer')).for('update')).length, 1);
    });
    await assert.rejects(db.transaction(async (tx) => {
      await tx.delete(author);
      tx.rollback();
    }));
    assert.equal(await db.$count(author), 2);
    await assert.rejects(db.transaction((tx) => tx.delete(author), { accessMode: 'read only', isolationLevel: 'repeatable read' }), failsWith('25006'));
  },

  'errors, read your writes, 20 tasks at once': async (db) => {
    await assert.rejects(db.execute(sql`select 1 / ${0}::int`), failsWith('22012'));
    await Promise.all(Array.from({ length: 20 }, async (_, number) => {
      for (let i = 0; i < 10; i++) {
        await db.transaction((tx) => tx.insert(author).values({ name: `task ${number} ${i}` }));
      }
    }));
    await db.transaction(async (tx) => {
      for (let i = 0; i < 50; i++) {
        await tx.insert(author).values({ name: `one by one ${i}` });
        assert.equal(await tx.$count(author, sql`name like 'one by one %'`), i + 1);
      }
    });
    assert.equal(await db.$count(author, sql`name like 'task %'`), 200);
  },
};

async function main() {
  const pool = new Pool({ connectionString, max: 10 });
  const client = postgres(connectionString, { ssl, max: 10, onnotice: () => {} });
  for (const [name, db, { migrate }] of [
    ['node-postgres', require('drizzle-orm/node-postgres').drizzle(pool, { schema }), require('drizzle-orm/node-postgres/migrator')],
    ['postgres.js', require('drizzle-orm/postgres-js').drizzle(client, { schema }), require('drizzle-orm/postgres-js/migrator')],
  ]) {
    const named = Object.fromEntries(Object.entries(checks).map(([line, work]) => [`${name}: ${line}`, work]));
    await run(named, (work) => work(db, migrate));
  }
  await pool.query('drop schema if exists drv_drizzle cascade; drop schema if exists drv_drizzle_log cascade');
  await pool.end();
  await client.end();
}

main();
