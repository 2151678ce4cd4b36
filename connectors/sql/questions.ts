import type { Question } from "#connector.ts";

export const questions: readonly Question[] = [
  {
    option: "url",
    label: "address",
    message: "The database (postgres://USER@HOST/DATABASE, mysql://USER@HOST/DATABASE or sqlite:FILE):",
  },
  {
    option: "ca",
    label: "certificate of the authority",
    message: "File with the certificate of the authority to trust (PEM; leave empty for the public ones):",
    isOptional: true,
    when: ({ url = "" }) => !/^sqlite:|@(?:localhost|127\.|\[::1\])/.test(url),
  },
  {
    option: "password",
    label: "password",
    message: "Password",
    isSecret: true,
    when: ({ url = "" }) => !/^sqlite:|:\/\/[^/@]*:[^/@]*@/.test(url),
  },
  { option: "users.query", label: "query for users", message: "Query for the users (SELECT …):" },
  {
    option: "users.id",
    label: "id of users",
    message: "Its column that identifies a person for good:",
    fallback: "id",
  },
  {
    option: "groups.query",
    label: "query for groups",
    message: "Query for the groups (leave empty to read none):",
    isOptional: true,
  },
  {
    option: "groups.id",
    label: "id of groups",
    message: "Its column that identifies a group for good:",
    fallback: "id",
    when: (answers) => answers["groups.query"] !== "",
  },
  {
    option: "memberships.query",
    label: "query for memberships",
    message: "Query for the memberships, a group and a member in each row (leave empty to read none):",
    isOptional: true,
    when: (answers) => answers["groups.query"] !== "",
  },
  {
    option: "memberships.group",
    label: "group of memberships",
    message: "Its column with the group's id:",
    when: (answers) => (answers["memberships.query"] ?? "") !== "",
  },
  {
    option: "memberships.member",
    label: "member of memberships",
    message: "Its column with the member's id:",
    when: (answers) => (answers["memberships.query"] ?? "") !== "",
  },
];
