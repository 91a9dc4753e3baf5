-- Have the server say its warnings, until the transaction ends: where it stops waiting for a standby, a warning is all that it says.
set_config('client_min_messages', CASE WHEN current_setting('client_min_messages') = 'error' THEN 'warning'
                                       ELSE current_setting('client_min_messages') END, true)
