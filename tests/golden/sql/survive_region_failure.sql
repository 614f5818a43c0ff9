-- https://www.cockroachlabs.com/docs/v26.2/alter-database#survive-zone-region-failure
ALTER DATABASE "isoline" SURVIVE REGION FAILURE
