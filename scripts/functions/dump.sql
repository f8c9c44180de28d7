-- Every built-in function with its volatility labels; run it on an empty cluster of each PostgreSQL release:
--   psql -At -f scripts/functions/dump.sql > dump-18
select proname || ' ' || string_agg(distinct provolatile::text, '' order by provolatile::text)
from pg_proc where pronamespace = 'pg_catalog'::regnamespace group by proname order by proname;
