-- https://www.cockroachlabs.com/docs/v26.2/as-of-system-time#parameters
SET TRANSACTION AS OF SYSTEM TIME '-30s'
