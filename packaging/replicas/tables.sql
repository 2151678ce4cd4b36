-- What can be loaded into, in PostgreSQL's SQL: each replica makes what is missing when it starts.
CREATE SCHEMA IF NOT EXISTS shop;
CREATE TABLE IF NOT EXISTS shop.orders (id bigint PRIMARY KEY, customer text NOT NULL, ordered timestamp, net numeric(12, 2));
