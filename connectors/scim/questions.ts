import type { Question } from "#connector.ts";
import { accessQuestions } from "#http/directory/questions.ts";

export const questions: readonly Question[] = [
  { option: "url", label: "address", message: "The server's address (https://HOST/scim/v2):" },
  ...accessQuestions,
];
