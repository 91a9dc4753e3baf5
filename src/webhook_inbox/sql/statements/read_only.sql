-- Say whether this transaction may write: (true,) where it may not, on a standby or by an operator's setting.
SELECT current_setting('transaction_read_only') = 'on'
