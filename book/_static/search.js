// Who searches “constructor” means the word; the index's objects would answer with a function.
const bare = Object.assign(Object.create(null), {
  hasOwnProperty: Object.prototype.hasOwnProperty,
});
document.addEventListener("DOMContentLoaded", () => {
  // oxlint-disable-next-line no-underscore-dangle -- the name is Sphinx's
  const { terms, titleterms } = Search._index;
  for (const words of [terms, titleterms]) Object.setPrototypeOf(words, bare);
});
