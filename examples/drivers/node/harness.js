// What the Node programs share: running checks, printing a line each.
'use strict';

const connectionString = process.env.PGSLUICE_URL;
/** For postgres.js, which does not read PGSSLMODE. */
const ssl = process.env.PGSSLMODE === 'require' ? 'require' : false;

/** Each check has a minute; one that failed does not end the rest. */
async function run(checks, open) {
  for (const [name, work] of Object.entries(checks)) {
    let late;
    try {
      const limit = new Promise((_, reject) => (late = setTimeout(() => reject(new Error('no end within 60 s')), 60_000)));
      await Promise.race([open(work), limit]);
      console.log(`ok   ${name}`);
    } catch (error) {
      process.exitCode = 1;
      const place = /[\w.]+\.js:\d+/.exec((error.stack ?? '').split('\n').find((l) => l.includes('examples/')) ?? '')?.[0];
      console.log(`FAIL ${name}: ${[place, error.code, error.cause?.message, error.message].filter(Boolean).join(' ')}`.replaceAll('\n', ' | '));
    } finally {
      clearTimeout(late);
    }
  }
}

module.exports = { connectionString, run, ssl };
