-- The API's role may not sort (001_roles.sql). Promises: a list inside a row, such as a user's addresses in order of their chains, is read by its owner's
-- index and put in order where it is gathered. Without this setting the planner prefers any index that has the order, and reads all of it, whoever
-- owns the rows: a new user cost as much as all users together.
alter role sluice_api set enable_presorted_aggregate = off;
