-- https://www.cockroachlabs.com/docs/v26.2/alter-database#add-region
ALTER DATABASE "isoline" ADD REGION IF NOT EXISTS "europe-west1"
