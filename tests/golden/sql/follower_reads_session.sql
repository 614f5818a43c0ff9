-- https://www.cockroachlabs.com/docs/v26.2/follower-reads
default_transaction_use_follower_reads=on
