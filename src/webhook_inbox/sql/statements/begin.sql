-- Prepare the open transaction: a durable commit, and server-side limits on the handler's statements and pauses.
-- %(handler_ms)s, %(wait_ms)s: milliseconds; wait_ms bounds our own waits for locks, those on a whole table included, which a
-- statement takes before it can set a limit of its own.
-- The lock_timeout that the handler shall find, and the role and the settings it shall leave, are kept in settings of our own, so
-- that the next statement can be sent together with this one. A stricter limit that the operator set stays. Returns nothing of use. Locks nothing. P-ACK.
WITH before AS MATERIALIZED (
    SELECT current_setting('lock_timeout') AS lock_timeout,
           current_setting('synchronous_commit') AS synchronous_commit,
           current_setting('statement_timeout') AS statement_timeout,
           current_setting('idle_in_transaction_session_timeout') AS idle_timeout,
           make_interval(secs => %(handler_ms)s::bigint / 1000.0) AS handler
)
SELECT set_config('webhook_inbox.lock_timeout', lock_timeout, true),
       set_config('webhook_inbox.role', current_user, true),
       set_config('webhook_inbox.settings',
                  concat_ws('|', current_setting('search_path'), current_setting('TimeZone'), current_setting('DateStyle'),
                            current_setting('IntervalStyle'), current_setting('row_security'), current_setting('session_replication_role')),
                  true),
       set_config('lock_timeout', %(wait_ms)s::bigint || 'ms', true),
       set_config('synchronous_commit', CASE synchronous_commit WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END, true),
       set_config('statement_timeout', CASE WHEN statement_timeout <> '0' AND statement_timeout::interval < handler
                                            THEN statement_timeout ELSE %(handler_ms)s::bigint || 'ms' END, true),
       set_config('idle_in_transaction_session_timeout', CASE WHEN idle_timeout <> '0' AND idle_timeout::interval < handler
                                                             THEN idle_timeout ELSE %(handler_ms)s::bigint || 'ms' END, true),
       {fragments/hear_warnings}
FROM before
