-- https://www.cockroachlabs.com/docs/v26.2/show-regions
SHOW REGIONS FROM DATABASE "isoline"
