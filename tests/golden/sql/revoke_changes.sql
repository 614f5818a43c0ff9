-- https://www.cockroachlabs.com/docs/v26.2/revoke
REVOKE UPDATE, DELETE ON TABLE events FROM "isoline_server"
