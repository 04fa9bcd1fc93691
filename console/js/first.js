// Before anything is painted: the theme that was chosen, else the system's. The rest is in theme.js.
document.documentElement.dataset.theme =
  localStorage.getItem('everypage.theme') ?? (matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light');
