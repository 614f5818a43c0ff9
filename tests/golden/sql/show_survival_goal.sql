-- https://www.cockroachlabs.com/docs/v26.2/sql-grammar#show_survival_goal_stmt
SHOW SURVIVAL GOAL FROM DATABASE "isoline"
