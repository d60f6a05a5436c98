/* coupon: what the files of the coupon door share. Every answer with a body has errMsg, empty where all is well. */
#ifndef STAMPEDE_DOORS_COUPON_H
#define STAMPEDE_DOORS_COUPON_H

#include "gateway/face.h"

#define COUPON_BAD_BODY "Only receive JSON format."

void coupon_message(struct request *request, int status, const char *message);
/* 204: what was asked for is not to be had. */
void coupon_nothing(struct request *request);
/* Problems that are the same on every route: no login, refusals of the guard, trouble of our own. */
void coupon_problem(struct request *request, enum problem problem, const char *detail);

/* coupon_sales.c: coupons are sales. */
extern const struct face coupon_create_face, coupon_grab_face, coupon_list_face;
void coupon_create(struct request *request);
void coupon_grab(struct request *request);
void coupon_list(struct request *request);

#endif
