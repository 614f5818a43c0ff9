-- Settings of the whole cluster that a service behind load balancers wants. As an administrator; running it again changes nothing.

-- A node that drains says 503 at /health?ready=1 for this long before it refuses connections: longer than a load balancer needs to notice
-- (compose: three checks, two seconds apart).
-- https://www.cockroachlabs.com/docs/v26.2/node-shutdown#server-shutdown-initial_wait
SET CLUSTER SETTING server.shutdown.initial_wait = '8s';

-- Then connections may leave by themselves. Isoline holds one for up to 300 s and asks again where one was cut, so it need not wait them out.
-- https://www.cockroachlabs.com/docs/v26.2/node-shutdown#server-shutdown-connections-timeout
SET CLUSTER SETTING server.shutdown.connections.timeout = '10s';

-- Longer than Isoline's longest statement (statement_timeout in cluster.sql).
-- https://www.cockroachlabs.com/docs/v26.2/node-shutdown#server-shutdown-transactions-timeout
SET CLUSTER SETTING server.shutdown.transactions.timeout = '40s';

-- Without a licence a cluster of several nodes is throttled after seven days. Free and trial licences are a key, too.
-- https://www.cockroachlabs.com/docs/v26.2/licensing-faqs
-- SET CLUSTER SETTING enterprise.license = '...';
