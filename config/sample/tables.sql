-- The tables that `rollcall export` fills with the users and groups of a target: applied at every start, made where
-- they are missing. Every export replaces their rows. More tables for `rollcall load` may stand here as well.

CREATE DATABASE IF NOT EXISTS directory;

CREATE TABLE IF NOT EXISTS directory.users (
  name VARCHAR NOT NULL PRIMARY KEY,
  display_name VARCHAR NOT NULL,
  mail VARCHAR,
  description VARCHAR
);

CREATE TABLE IF NOT EXISTS directory.groups (
  name VARCHAR NOT NULL PRIMARY KEY,
  display_name VARCHAR NOT NULL,
  description VARCHAR
);

-- Who is directly in which group, each pair once. A member is a 'user' or a 'group'. This table and the next have no
-- key: exports replace all of their rows anyway, and the index of some ten million of them takes more memory than they do.
CREATE TABLE IF NOT EXISTS directory.memberships (
  member_kind VARCHAR NOT NULL,
  member_name VARCHAR NOT NULL,
  group_name VARCHAR NOT NULL
);

-- Which users are in which group, also through groups that are in groups. `depth` is 1 for a direct member; `path` has
-- the groups of the shortest way, from the one the user is directly in to `group_name`: 'Berth Planning > Planning'.
CREATE TABLE IF NOT EXISTS directory.effective_memberships (
  user_name VARCHAR NOT NULL,
  group_name VARCHAR NOT NULL,
  depth INTEGER NOT NULL,
  path VARCHAR NOT NULL
);
