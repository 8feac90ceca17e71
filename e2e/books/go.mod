// The failure test of books for any gateway, in a module of its own: it uses the standard library
// only, so that it can be copied without the product.
module stoa/e2e/books

go 1.26.0
