-- https://www.cockroachlabs.com/docs/v26.2/show-create
SHOW CREATE TABLE "runs"
