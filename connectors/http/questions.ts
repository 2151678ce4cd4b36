import type { Question } from "#connector.ts";

/** What `rollcall init` asks: enough for a list of users in one answer; pages and groups are written by hand. */
export const questions: readonly Question[] = [
  { option: "url", label: "address", message: "The address above the lists (https://hr.example.com/api):" },
  {
    option: "ca",
    label: "certificate of the authority",
    message: "File with the certificate of the authority to trust (PEM; leave empty for the public ones):",
    isOptional: true,
    when: ({ url = "" }) => url.startsWith("https:"),
  },
  {
    option: "auth",
    isStep: true,
    label: "way to log in",
    message: "How does Rollcall log in?",
    choices: [
      { name: "with a token", value: "bearer" },
      { name: "with a user name and a password", value: "basic" },
      { name: "without logging in", value: "none" },
    ],
  },
  { option: "auth.bearer", label: "token", message: "Token", isSecret: true, when: ({ auth }) => auth === "bearer" },
  { option: "auth.basic.username", label: "user", message: "User:", when: ({ auth }) => auth === "basic" },
  {
    option: "auth.basic.password",
    label: "password",
    message: "Password",
    isSecret: true,
    when: ({ auth }) => auth === "basic",
  },
  { option: "users.url", label: "list of users", message: "The list of users, below the address (employees):" },
  {
    option: "users.items",
    label: "path of the list",
    message: "Where the list is in the answer (data.employees; leave empty if the answer is the list):",
    isOptional: true,
  },
  {
    option: "users.id",
    label: "id of users",
    message: "The path of what identifies a person for good:",
    fallback: "id",
  },
];
