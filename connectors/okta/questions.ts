import type { Question } from "#connector.ts";

/** What `rollcall init` asks for Okta. */
export const questions: readonly Question[] = [
  { option: "url", message: "The organization's address (https://acme.okta.com):", label: "address" },
  {
    option: "kind",
    isStep: true,
    message: "How does Rollcall log in?",
    label: "way to log in",
    choices: [
      { name: "as a service app (API Services), with a key", value: "app" },
      { name: "with an API token", value: "token" },
    ],
  },
  {
    option: "token",
    message: "API token",
    label: "API token",
    isSecret: true,
    when: ({ kind }) => kind === "token",
  },
  { option: "clientId", message: "Client ID of the app:", label: "client ID", when: ({ kind }) => kind === "app" },
  {
    option: "privateKey.file",
    message: "File with the private key of the app (PEM or JWK):",
    label: "private key",
    fallback: "okta-key.pem",
    when: ({ kind }) => kind === "app",
  },
  {
    option: "privateKey.kid",
    message: "Id of the key, as the app shows it (KID; leave empty for a JWK):",
    label: "id of the key",
    isOptional: true,
    when: ({ kind }) => kind === "app",
  },
];
