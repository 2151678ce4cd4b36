-- Rollcall's user is no superuser. psql runs this once, on an empty volume.
\set password `cat /run/secrets/database_password`
CREATE ROLE rollcall LOGIN PASSWORD :'password';
CREATE DATABASE rollcall OWNER rollcall;
