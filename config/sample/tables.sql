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

-- Who is directly in which group. A member is a 'user' or a 'group'.
CREATE TABLE IF NOT EXISTS directory.memberships (
  member_kind VARCHAR NOT NULL,
  member_name VARCHAR NOT NULL,
  group_name VARCHAR NOT NULL,
  PRIMARY KEY (member_kind, member_name, group_name)
);

-- Which users are in which group, also through groups that are in groups. `depth` is 1 for a direct member; `path` has
-- the groups of the shortest way, from the one the user is directly in to `group_name`: 'Berth Planning > Planning'.
CREATE TABLE IF NOT EXISTS directory.effective_memberships (
  user_name VARCHAR NOT NULL,
  group_name VARCHAR NOT NULL,
  depth INTEGER NOT NULL,
  path VARCHAR NOT NULL,
  PRIMARY KEY (user_name, group_name)
);
