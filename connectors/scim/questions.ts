import type { Question } from "#connector.ts";

export const questions: readonly Question[] = [
  { option: "url", label: "address", message: "The server's address (https://HOST/scim/v2):" },
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
  { option: "auth.bearer", label: "Token", message: "Token", isSecret: true, when: ({ auth }) => auth === "bearer" },
  { option: "auth.basic.username", label: "user", message: "User:", when: ({ auth }) => auth === "basic" },
  {
    option: "auth.basic.password",
    label: "password",
    message: "Password",
    isSecret: true,
    when: ({ auth }) => auth === "basic",
  },
];
