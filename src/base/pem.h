/* pem: why a file of certificates or keys could not be taken, in words for a log. */
#ifndef STAMPEDE_BASE_PEM_H
#define STAMPEDE_BASE_PEM_H

/* NULL, or why it cannot be a file to read. Asked before OpenSSL opens it: to open a pipe would be to wait for whoever
 * writes into it. */
const char *pem_file_objection(const char *path);
/* Why OpenSSL has just failed on this thread, and its errors are cleared; without: what to say where there is nothing in PEM
 * form. */
const char *pem_reason(const char *without);

#endif
