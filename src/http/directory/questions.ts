/*
 * What `rollcall init` asks (`Question` of connector.ts) about a service with the options `url`, `ca` and `auth`.
 */

type Answers = Readonly<Record<string, string>>;

/** After that for `url`. */
export const accessQuestions = [
  {
    option: "ca",
    label: "certificate of the authority",
    message: "File with the certificate of the authority to trust (PEM; leave empty for the public ones):",
    isOptional: true,
    when: ({ url = "" }: Answers): boolean => url.startsWith("https:"),
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
  {
    option: "auth.bearer",
    label: "token",
    message: "Token",
    isSecret: true,
    when: ({ auth }: Answers): boolean => auth === "bearer",
  },
  {
    option: "auth.basic.username",
    label: "user",
    message: "User:",
    when: ({ auth }: Answers): boolean => auth === "basic",
  },
  {
    option: "auth.basic.password",
    label: "password",
    message: "Password",
    isSecret: true,
    when: ({ auth }: Answers): boolean => auth === "basic",
  },
] as const;
