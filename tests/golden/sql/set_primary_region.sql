-- https://www.cockroachlabs.com/docs/v26.2/alter-database#set-primary-region
ALTER DATABASE "isoline" SET PRIMARY REGION "us-east1"
