/** Where the provider sends people and logouts to, below `publicUrl`. */
export const oidcPaths = {
  begin: "/sign-in/oidc",
  back: "/sign-in/oidc/callback",
  logout: "/sign-in/oidc/logout",
} as const;
