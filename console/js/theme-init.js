// Sets the theme before the first paint: the chosen one, else the system's. See theme.js.
document.documentElement.dataset.theme =
  localStorage.getItem('everypage.theme') ?? (matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light');
