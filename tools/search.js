// The search of the site.  `pages` and lunr stand before this script in the same file.
const input = document.getElementById("mkdocs-search-query");
const list = document.getElementById("mkdocs-search-results");

function article(page) {
  const element = document.createElement("article");
  const link = document.createElement("a");
  link.href = `${base_url}/${page.location}`;
  link.textContent = page.title;
  const text = document.createElement("p");
  text.textContent = page.text.slice(0, 200);
  element.append(link, text);
  return element;
}

function search(index, byLocation) {
  let matches = [];
  try {
    matches = input.value ? index.search(input.value) : [];
  } catch {
    // lunr reads ":", "~" and "^" as operators; an incomplete one matches nothing
  }
  const articles = matches.map((match) => article(byLocation.get(match.ref)));
  list.replaceChildren(...(articles.length ? articles : [list.dataset.noResultsText]));
}

if (input && list) { // only the page of the search has both
  const index = lunr(function () {
    this.ref("location");
    this.field("title", { boost: 10 });
    this.field("text");
    pages.forEach((page) => this.add(page));
  });
  const byLocation = new Map(pages.map((page) => [page.location, page]));
  input.value = new URLSearchParams(window.location.search).get("q") ?? input.value;
  input.addEventListener("input", () => search(index, byLocation));
  search(index, byLocation);
}
