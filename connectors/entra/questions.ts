import type { Question } from "#connector.ts";

export const questions: readonly Question[] = [
  { option: "tenant", label: "tenant", message: "The tenant's id, or a domain of it (contoso.onmicrosoft.com):" },
  { option: "clientId", label: "app", message: "The application (client) id of the app registration:" },
  {
    option: "credential",
    isStep: true,
    label: "way to log in",
    message: "How does the app prove who it is?",
    choices: [
      { name: "with a client secret", value: "secret" },
      { name: "with a certificate", value: "certificate" },
      { name: "with another issuer's token (workload identity)", value: "federated" },
    ],
  },
  {
    option: "clientSecret",
    label: "client secret",
    message: "Client secret",
    isSecret: true,
    when: ({ credential }) => credential === "secret",
  },
  {
    option: "certificate.file",
    label: "certificate",
    message: "File with the certificate (PEM):",
    when: ({ credential }) => credential === "certificate",
  },
  {
    option: "certificate.key",
    label: "key of the certificate",
    message: "File with its private key (PEM):",
    when: ({ credential }) => credential === "certificate",
  },
  {
    option: "federatedToken.file",
    label: "token",
    message: "File with the token:",
    when: ({ credential }) => credential === "federated",
  },
  {
    option: "cloud",
    label: "cloud",
    message: "Which cloud is the tenant in?",
    choices: [
      { name: "the global one", value: "global" },
      { name: "US Government (GCC High)", value: "usgov" },
      { name: "US Department of Defense", value: "dod" },
      { name: "China (21Vianet)", value: "china" },
    ],
    fallback: "global",
  },
];
